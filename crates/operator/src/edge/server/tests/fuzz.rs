//! Thousands of requests as nobody would send them. The seed makes them the same each time.

use std::ops::Range;

use flashjob_sim::SeededRng;
use http::{HeaderName, HeaderValue, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Got, Sent, whole};
use super::frames::*;
use super::*;

const SEED: u64 = 20_261_118;

/// What devices say.
const MESSAGES: [&str; 5] = [
    r#"{"type":"data","message_id":"4acd7f23","version":1,"sent":"2022-03-20T14:45:25.271Z","directive":"registration","metadata":null,"response_to":"","content":{"certificate_request":"-----BEGIN CERTIFICATE REQUEST-----\n","hardware":{"hostname":"edge1","cpu":{"architecture":"x86_64","flags":[]},"disks":null}}}"#,
    r#"{"type":"data","message_id":"m","version":1,"sent":"0001-01-01T00:00:00.000Z","directive":"enrolment","content":{"features":{"modelName":"gateway"},"target_namespace":"default"}}"#,
    r#"{"type":"data","directive":"heartbeat","content":{"status":"up","version":"54429","workloads":[{"name":"nginx","status":"Running"}],"events":[{"reason":"Failed","message":"no such image","type":"warn"}]}}"#,
    r#"{"type":"connection-status","message_id":"m","version":1,"content":{"state":"online","dispatchers":{}}}"#,
    r#"{"type":"event","content":"disconnect"}"#,
];
/// What readers stumble over.
const TRAPS: [&[u8]; 16] = [
    b"\0",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\xff\xfe",
    b"\"",
    b"\\ud800",
    b"1e999999",
    b"-18446744073709551616",
    b"[[[[[[[[[[[[[[[[",
    b"{\"type\":",
    b"%00%0d%0a",
    b"../../..",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"\x1b[2J",
];
const METHODS: [&str; 9] =
    ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "BR-EW!"];
const NAMES: [&str; 8] = [
    "content-type",
    "content-length",
    "transfer-encoding",
    "if-none-match",
    "expect",
    "te",
    "host",
    "x-whatever",
];
const VALUES: [&str; 10] = [
    "application/json",
    "text/plain; charset=\"\u{fc}\"",
    "",
    "0",
    "-1",
    "99999999999999999999",
    "chunked",
    "100-continue",
    "\"v1\"",
    "W/\"v1\", *",
];

struct Fuzz(SeededRng);

impl Fuzz {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        self.0.pick(from).unwrap().clone()
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.0.below(most + 1)).map(|_| self.0.next() as u8).collect()
    }

    fn range(&mut self, within: usize) -> Range<usize> {
        let from = self.0.below(within + 1);
        from..from + self.0.below((within - from).min(40) + 1)
    }

    /// Some of it replaced, doubled, left out, or cut off.
    fn mutated(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        for _ in 0..self.0.below(4) {
            let range = self.range(bytes.len());
            match self.0.below(5) {
                0 => drop(bytes.splice(range, self.bytes(8))),
                1 => drop(bytes.splice(range, self.pick(&TRAPS).iter().copied())),
                2 => drop(bytes.drain(range)),
                3 => bytes.extend_from_within(range),
                _ => bytes.truncate(range.end),
            }
        }
        bytes
    }

    fn body(&mut self) -> Vec<u8> {
        match self.0.below(4) {
            0 => self.bytes(2000),
            _ => {
                let message = self.pick(&MESSAGES).as_bytes().to_vec();
                self.mutated(message)
            }
        }
    }

    fn id(&mut self) -> String {
        match self.0.below(8) {
            0 => String::from_utf8_lossy(&self.bytes(300)).into_owned(),
            1 => String::from_utf8_lossy(&self.bytes(300)).escape_debug().to_string(),
            2 => "a.b-".repeat(self.0.below(100)),
            _ => "d1".to_owned(),
        }
    }

    fn path(&mut self) -> String {
        let (channel, direction) = (self.pick(&["data", "control"]), self.pick(&["in", "out"]));
        match self.0.below(8) {
            0 => String::from_utf8_lossy(&self.bytes(50)).into_owned(),
            1 => format!("{BASE}/swagger.json"),
            2 => format!("{BASE}/{}/{channel}", self.id()),
            _ => format!("{BASE}/{channel}/{}/{direction}", self.id()),
        }
    }

    /// Mostly the right one.
    fn method(&mut self, path: &str) -> &'static str {
        match self.0.below(4) {
            0 => self.pick(&METHODS),
            _ if path.ends_with("out") => "POST",
            _ => "GET",
        }
    }

    /// A request over h1, more or less.
    fn h1(&mut self) -> Vec<u8> {
        let (path, body) = (self.path(), self.body());
        let method = self.method(&path);
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        if self.0.chance(7, 8) {
            let length = body.len();
            request += &format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        while self.0.chance(1, 8) {
            request += &format!("{}: {}\r\n", self.pick(&NAMES), self.pick(&VALUES));
        }
        let request = [request.as_bytes(), b"\r\n", &body].concat();
        if self.0.chance(3, 4) { request } else { self.mutated(request) }
    }

    /// A request as a library lets it through.
    fn request(&mut self) -> Request<Sent> {
        loop {
            let path: String = self.path().chars().filter(char::is_ascii_graphic).collect();
            let uri = format!("https://localhost/{}", path.trim_start_matches('/'));
            let mut request = Request::builder().method(self.method(&path)).uri(uri);
            if self.0.chance(7, 8) {
                request = request.header("content-type", "application/json");
            }
            for _ in 0..self.0.below(4) {
                let value = HeaderValue::from_bytes(&self.bytes(30));
                let name = HeaderName::from_bytes(format!("x-{}", self.0.below(99)).as_bytes());
                if let (Ok(name), Ok(value)) = (name, value) {
                    request = request.header(name, value);
                }
            }
            // A CONNECT is for a host, and no library sends one for a path.
            if let Ok(request) = request.body(whole(self.body()))
                && request.method() != http::Method::CONNECT
            {
                return request;
            }
        }
    }

    /// Some h2 frames.
    fn h2(&mut self) -> Vec<u8> {
        let stream = self.0.below(12) as u32;
        let head = || asking("POST", "/data/d1/out");
        match self.0.below(4) {
            0 => frame(self.0.below(12) as u8, self.0.next() as u8, stream, &self.bytes(60)),
            1 => frame(HEADERS, self.0.below(64) as u8, stream, &self.mutated(head())),
            2 => frame(DATA, self.0.below(16) as u8, stream, &self.body()),
            _ => {
                let whole =
                    [frame(HEADERS, END_HEADERS, stream, &head()), getting(stream + 2, "/")];
                self.mutated(whole.concat())
            }
        }
    }
}

/// Nothing has panicked, and others are answered.
async fn is_well(api: &Api) {
    assert_eq!(api.metrics.refusals(Cause::Panic), 0);
    assert!(!api.task.is_finished());
    for manner in BOTH {
        let got = api.client(manner).await.ask(get("/data/d1/in")).await;
        assert_eq!(got.status.as_u16(), 200);
    }
}

/// All answers in what came back over h1.
fn answers(mut bytes: &[u8]) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("whole headers");
        let head = std::str::from_utf8(&bytes[..end]).expect("printable headers");
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().unwrap());
        let status: u16 = head[9..12].parse().unwrap();
        bytes = &bytes[end + 4..];
        // A HEAD has the length of what is left out.
        let body = &bytes[..if bytes.starts_with(b"HTTP/1.1 ") { 0 } else { length }];
        answers.push((status, format!("{head}\n{}", String::from_utf8_lossy(body))));
        bytes = &bytes[body.len()..];
    }
    answers
}

#[tokio::test]
async fn h1_as_bytes() {
    let api = Api::start(Settings::default()).await;
    let mut fuzz = Fuzz(SeededRng::new(SEED));
    let (mut answered, mut fine) = (0, 0);
    for _ in 0..500 {
        let mut raw = Raw::connect(&api, Manner::H1).await;
        let requests: Vec<u8> = (0..4).flat_map(|_| fuzz.h1()).collect();
        // The server may end it in the midst of them.
        let _ = raw.0.write_all(&requests).await;
        let _ = raw.0.shutdown().await;
        let mut said = Vec::new();
        let read = tokio::time::timeout(PATIENCE, raw.0.read_to_end(&mut said));
        let _ = read.await.expect("an end");
        for (status, answer) in answers(&said) {
            answered += 1;
            fine += usize::from(status < 300);
            let has_sentence = ["message", "x-flashjob-reason"].iter().any(|s| answer.contains(s));
            assert!(status < 500 || has_sentence, "{answer}");
        }
    }
    println!("{answered} answers, {fine} of them fine");
    // Most of it comes through to what is tested.
    assert!(answered > 500 && fine > 100, "{answered} {fine}");
    is_well(&api).await;
}

#[tokio::test]
async fn h2_as_a_library_sends_it() {
    let api = Api::start(Settings::default()).await;
    let mut fuzz = Fuzz(SeededRng::new(SEED));
    let mut client = api.client(Manner::H2).await;
    let mut fine = 0;
    for _ in 0..2000 {
        let Got { status, body, .. } = client.ask(fuzz.request()).await;
        fine += usize::from(status.is_success());
        assert!(status.as_u16() < 500 || !body.is_empty(), "{status}");
    }
    println!("{fine} of them fine");
    assert!(fine > 200, "{fine}");
    is_well(&api).await;
}

#[tokio::test]
async fn h2_as_frames() {
    let api = Api::start(Settings::default()).await;
    let mut fuzz = Fuzz(SeededRng::new(SEED));
    for _ in 0..300 {
        let mut raw = Raw::connect(&api, Manner::H2).await;
        let frames: Vec<u8> = (0..10).flat_map(|_| fuzz.h2()).collect();
        let _ = raw.0.write_all(&[opening(), frames].concat()).await;
        let _ = raw.0.shutdown().await;
        let _ = raw.end().await;
    }
    is_well(&api).await;
}
