//! The server boards call, as the original's agent is one.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use flashjob_sim::flashjob::ServerCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::LIMIT;

pub struct Agent {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    port: u16,
}

/// A board that has called and shown its certificate.
pub struct Session {
    pub stream: TlsStream<TcpStream>,
    pub certificate: Vec<u8>,
}

impl Agent {
    pub async fn start(cert: &ServerCert) -> Result<Self> {
        Self::speaking(cert, rustls::ALL_VERSIONS).await
    }

    pub async fn speaking(
        cert: &ServerCert,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<Self> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(cert.chain.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(cert.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(chain?, key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)), port })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for a board and reads its certificate. A failed handshake is not the end, as in the original.
    pub async fn session(&self) -> Result<Session> {
        let accept = async {
            loop {
                let (stream, _) = self.listener.accept().await?;
                if let Ok(stream) = self.acceptor.accept(stream).await {
                    return anyhow::Ok(stream);
                }
            }
        };
        let mut stream = timeout(LIMIT, accept).await.context("no board calls")??;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
        assert_eq!(stream.get_ref().1.server_name(), Some("ota-agent"));
        let mut certificate = Vec::new();
        while certificate.len() < 700 {
            if timeout(LIMIT, stream.read_buf(&mut certificate)).await?? == 0 {
                bail!("the board went after {} bytes of certificate", certificate.len());
            }
        }
        Ok(Session { stream, certificate })
    }

    /// Answers every handshake that fails, until this is dropped.
    pub async fn only_handshakes(&self) {
        while let Ok((stream, _)) = self.listener.accept().await {
            let _ = self.acceptor.accept(stream).await;
        }
    }

    /// Serves the next board, in the original's way. Returns the board's certificate.
    pub async fn serve(&self, firmware: &[u8]) -> Result<Vec<u8>> {
        let mut session = self.session().await?;
        session.send(firmware).await?;
        session.end().await;
        Ok(session.certificate)
    }
}

impl Session {
    pub async fn send(&mut self, firmware: &[u8]) -> Result<()> {
        timeout(LIMIT, self.stream.write_all(firmware)).await??;
        timeout(LIMIT, self.stream.flush()).await??;
        Ok(())
    }

    /// An orderly end.
    pub async fn end(&mut self) {
        // The board may be gone already.
        let _ = self.stream.shutdown().await;
    }

    /// The one way to say that something broke.
    pub fn reset(self) -> Result<()> {
        Ok(self.stream.get_ref().0.set_zero_linger()?)
    }
}
