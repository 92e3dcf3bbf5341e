//! The device's own HTTP endpoints. Its server answers one request at a time and has little memory, so each request is
//! short, alone, and on a connection of its own.

use std::net::Ipv4Addr;

use flashjob_api::flashjob::Reason;
use reqwest::{Client, Response, StatusCode};

use crate::failure::{Failure, chain};
use crate::info::Info;
use crate::pace::Pace;
use crate::verify::Probe;

/// The most that is read of an answer; a certificate is well under 1 KiB.
const LONGEST_ANSWER: usize = 4096;

/// The device to flash.
#[derive(Clone)]
pub struct Board {
    url: String,
    pace: Pace,
    client: Client,
}

/// What came of asking for an update.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// It will call.
    Accepted,
    /// The request may have arrived, its answer has not.
    InDoubt(String),
    /// The request has not arrived.
    NotReached(String),
}

impl Board {
    /// The device that answers at this URL.
    pub fn new(url: &str, pace: Pace) -> Result<Board, Failure> {
        let client = Client::builder()
            // A board is on the local network; a proxy for the outside would not find it.
            .no_proxy()
            // It speaks plain HTTP, which needs no CAs.
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .connect_timeout(pace.connect())
            .build();
        let client =
            client.map_err(|error| Failure::new(Reason::DeviceUnreachable, chain(&error)))?;
        Ok(Board { url: url.to_owned(), pace, client })
    }

    /// Looks at `/info`.
    pub async fn probe(&self) -> Probe {
        let request = self.client.get(format!("{}/info", self.url)).timeout(self.pace.answer());
        let answer = match request.send().await {
            Ok(answer) => answer,
            // Its network takes the connection and its server has no time: checking an image keeps a board busy.
            Err(error) if error.is_timeout() && !error.is_connect() => return Probe::Busy,
            Err(_) => return Probe::Away,
        };
        let status = answer.status();
        // An answer that breaks off is a board that is going down.
        let Ok(body) = text(answer).await else { return Probe::Away };
        match Info::read(&body).filter(|_| status.is_success()) {
            Some(info) => Probe::Info(info),
            None => Probe::Unreadable(format!("{status} {}", body.trim())),
        }
    }

    /// The certificate it shows to anybody. `Ok(Err(why))` if it has none to show.
    pub async fn certificate(&self) -> Result<Result<Vec<u8>, String>, Failure> {
        let unreachable = |why: String| Failure::new(Reason::DeviceUnreachable, why);
        let url = format!("{}/onboard", self.url);
        let answer = self.client.get(url).timeout(self.pace.certificate()).send().await;
        let answer = answer.map_err(|error| unreachable(chain(&error)))?;
        match answer.status() {
            StatusCode::OK => bytes(answer).await.map(Ok).map_err(unreachable),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                Ok(Err(format!("/onboard answers {}", answer.status())))
            }
            // It is there, and cannot make one.
            status => {
                let why = format!("/onboard answers {status}");
                Err(Failure::new(Reason::AttestationFailed, why))
            }
        }
    }

    /// Asks it to fetch its firmware from this address. Never to be done while an earlier request may be at work: two
    /// updates at once write into one slot.
    pub async fn ask(&self, address: Ipv4Addr) -> Result<Asked, Failure> {
        let request = self
            .client
            .post(format!("{}/update", self.url))
            .header("content-type", "text/plain")
            .timeout(self.pace.answer())
            .body(format!("ip: {address}"));
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Ok(Asked::NotReached(chain(&error))),
            Err(error) => return Ok(Asked::InDoubt(chain(&error))),
        };
        let status = answer.status();
        let body = text(answer).await.unwrap_or_default();
        if !status.is_success() {
            let message =
                format!("the device answers {status} to the update request: {}", body.trim());
            return Err(Failure::new(Reason::DeviceRefused, message));
        }
        if body.contains("(Insecure)") {
            let message = "the device's firmware is built without OTA_SECURE: it waits for raw bytes on TCP 3333, which \
                           anybody could send; build it with OTA_SECURE";
            return Err(Failure::new(Reason::ProtocolUnsupported, message));
        }
        Ok(Asked::Accepted)
    }
}

async fn text(answer: Response) -> Result<String, String> {
    bytes(answer).await.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

async fn bytes(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| chain(&error))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LONGEST_ANSWER {
            return Err(format!("its answer is longer than {LONGEST_ANSWER} bytes"));
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpSocket, TcpStream};

    #[tokio::test]
    async fn a_board_that_takes_no_connection_has_not_been_asked() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        // Its queue is full, so that it is as silent as a board without power.
        let mut queue = Vec::new();
        let full = std::time::Duration::from_millis(200);
        while let Ok(stream) = tokio::time::timeout(full, TcpStream::connect(address)).await {
            queue.push(stream.unwrap());
        }
        let pace = Pace::new(10.0).unwrap();
        let board = Board::new(&format!("http://{address}"), pace).unwrap();
        let asked = board.ask(Ipv4Addr::LOCALHOST).await.unwrap();
        assert!(matches!(asked, Asked::NotReached(_)), "{asked:?}");
    }
}
