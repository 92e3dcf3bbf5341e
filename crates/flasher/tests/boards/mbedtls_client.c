/* The TLS half of a board, on the TLS library boards have, in the order and with the waits of the original's firmware
 * (ota-service, src/tls.c): TLS 1.2 alone, the pinned certificate as the only CA, the name ota-agent; wait 500 ms, send the
 * DICE certificate, wait 1.5 s, read 64 bytes at a time until the server ends it.
 *
 * mbedtls_client ADDRESS PINNED.pem CERTIFICATE.der FIRMWARE.out [quits]
 *
 * With a fifth argument it says goodbye together with the certificate, reads nothing and keeps the line open.
 *
 * Prints the protocol, the cipher suite and how the session ended. Exits 0 only if the server ended it in an orderly way
 * after at least one byte: that is what a board takes for a whole image.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>

static void check(int result, const char *what) {
    char words[128];
    if (result >= 0) return;
    mbedtls_strerror(result, words, sizeof words);
    fprintf(stderr, "%s: -0x%04x %s\n", what, (unsigned)-result, words);
    exit(1);
}

int main(int argc, char **argv) {
    mbedtls_net_context net;
    mbedtls_ssl_context ssl;
    mbedtls_ssl_config config;
    mbedtls_x509_crt pinned;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    unsigned char certificate[4096], chunk[64];
    size_t length, sent = 0, total = 0;
    FILE *file;
    int n, quits = argc == 6;

    if (argc != 5 && !quits) return 2;
    if ((file = fopen(argv[3], "rb")) == NULL) return 2;
    length = fread(certificate, 1, sizeof certificate, file);
    fclose(file);
    if ((file = fopen(argv[4], "wb")) == NULL) return 2;

    mbedtls_net_init(&net);
    mbedtls_ssl_init(&ssl);
    mbedtls_ssl_config_init(&config);
    mbedtls_x509_crt_init(&pinned);
    mbedtls_entropy_init(&entropy);
    mbedtls_ctr_drbg_init(&random);
    check(mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, NULL, 0), "random");
    check(mbedtls_x509_crt_parse_file(&pinned, argv[2]), "the pinned certificate");
    check(mbedtls_ssl_config_defaults(&config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                      MBEDTLS_SSL_PRESET_DEFAULT), "defaults");
    mbedtls_ssl_conf_min_version(&config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(&config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_authmode(&config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(&config, &pinned, NULL);
    mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &random);
    check(mbedtls_ssl_setup(&ssl, &config), "setup");
    check(mbedtls_ssl_set_hostname(&ssl, "ota-agent"), "name");

    check(mbedtls_net_connect(&net, argv[1], "4433", MBEDTLS_NET_PROTO_TCP), "connect");
    mbedtls_ssl_set_bio(&ssl, &net, mbedtls_net_send, mbedtls_net_recv, NULL);
    check(mbedtls_ssl_handshake(&ssl), "handshake");
    printf("mbedTLS %s: %s %s\n", MBEDTLS_VERSION_STRING, mbedtls_ssl_get_version(&ssl),
           mbedtls_ssl_get_ciphersuite(&ssl));

    usleep(500 * 1000);
    /* Both in one packet, so that there is no moment between them. */
    if (quits && setsockopt(net.fd, IPPROTO_TCP, TCP_CORK, &quits, sizeof quits) != 0) return 2;
    while (sent < length) {
        n = mbedtls_ssl_write(&ssl, certificate + sent, length - sent);
        check(n, "certificate");
        sent += (size_t)n;
    }
    if (quits) {
        mbedtls_ssl_close_notify(&ssl);
        quits = 0;
        setsockopt(net.fd, IPPROTO_TCP, TCP_CORK, &quits, sizeof quits);
        sleep(30);
        return 0;
    }
    usleep(1500 * 1000);
    while ((n = mbedtls_ssl_read(&ssl, chunk, sizeof chunk)) > 0) {
        if (fwrite(chunk, 1, (size_t)n, file) != (size_t)n) return 2;
        total += (size_t)n;
    }
    if (fclose(file) != 0) return 2;
    if (n != 0 && n != MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY && n != MBEDTLS_ERR_SSL_CONN_EOF) check(n, "read");
    printf("%zu bytes, ended by %s\n", total, n == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY ? "close_notify" : "EOF");
    mbedtls_ssl_close_notify(&ssl);
    mbedtls_net_free(&net);
    return total > 0 ? 0 : 1;
}
