use super::*;

#[test]
fn a_server_is_a_host_and_a_port() {
    let read = |text: &str| Server::read(text).map(|server| (server.text, server.host));
    let good = [
        ("Edge.example:8043", "edge.example"),
        ("192.0.2.1:443", "192.0.2.1"),
        ("[2001:DB8::0:1]:8043", "2001:db8::1"),
    ];
    for (text, host) in good {
        assert_eq!(read(text).unwrap(), (text.to_owned(), host.to_owned()));
    }
    for text in [
        "",
        "edge",
        ":8043",
        "edge:0",
        "edge:65536",
        "a:b:1",
        "[edge]:1",
        "e\"x:1",
        "e x:1",
        "[::1",
    ] {
        assert!(Server::read(text).is_err(), "{text}");
    }
}

#[test]
fn a_name_in_a_certificate_is_compared_as_tls_does() {
    let server = Server::read("edge.example:8043").unwrap();
    assert!(server.is("EDGE.example") && server.is("*.example"));
    assert!(!server.is("example") && !server.is("*.edge.example") && !server.is("*"));
}

#[test]
fn the_configuration_is_read_by_yggdrasil() {
    let text = config("edge.example:8043");
    let settings: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let wanted = [
        "log-level = \"info\"",
        "cert-file = \"/etc/pki/consumer/cert.pem\"",
        "key-file = \"/etc/pki/consumer/key.pem\"",
        "ca-root = [\"/etc/pki/consumer/ca.pem\"]",
        "path-prefix = \"api/flotta-management/v1\"",
        "protocol = \"http\"",
        "server = \"edge.example:8043\"",
    ];
    assert_eq!(settings, wanted);
}
