//! What clients get wrong, and what they are told.

use super::client::{Sent, request, whole};
use super::*;

fn unnamed(method: &str, path: &str, body: &str) -> http::Request<Sent> {
    request(method, path).body(whole(body.to_owned())).unwrap()
}

#[tokio::test]
async fn every_line_of_bad_input() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        // Unknown paths.
        for path in ["/", "/data/d1", "/data/d1/in/", "/data//in", "https://localhost/", "/x/d1/in"]
        {
            let got = client.ask(get(path)).await;
            assert_eq!(got.status.as_u16(), 404, "{path}");
            assert!(got.message().contains("was not found"), "{path}");
        }
        // Methods.
        for (method, path, allowed) in [
            ("POST", "/data/d1/in", "GET"),
            ("PUT", "/control/d1/in", "GET"),
            ("GET", "/data/d1/out", "POST"),
            ("DELETE", "/control/d1/out", "POST"),
            ("POST", "/swagger.json", "GET"),
            ("BREW", "/data/d1/in", "GET"),
        ] {
            let got = client.ask(unnamed(method, path, "")).await;
            assert_eq!((got.status.as_u16(), got.header("allow")), (405, allowed), "{path}");
            if path.ends_with("/in") {
                assert!(got.header("x-flashjob-reason").contains(method));
                assert_eq!(got.body.len(), 0, "{path}: any body would be taken for a message");
                continue;
            }
            assert!(got.message().contains(method));
            let body: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
            assert_eq!(body["allowed"], serde_json::json!([allowed]));
        }
        // A HEAD is answered without a body, whatever it is about.
        for (path, status) in [("/data/d1/in", 405), ("/x", 404)] {
            let got = client.ask(unnamed("HEAD", path, "")).await;
            assert_eq!((got.status.as_u16(), got.body.len()), (status, 0), "{path}");
        }
        // Content types.
        for wrong in ["", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
            let request = request("POST", "/data/d1/out").header("content-type", wrong);
            let got = client.ask(request.body(whole("{}")).unwrap()).await;
            assert_eq!(got.status.as_u16(), 415, "{wrong}");
            assert!(got.message().contains(wrong));
        }
        assert_eq!(client.ask(unnamed("POST", "/data/d1/out", "{}")).await.status.as_u16(), 415);
        for right in ["application/json; charset=utf-8", "Application/JSON"] {
            let request = request("POST", "/control/d1/out").header("content-type", right);
            let got = client.ask(request.body(whole(r#"{"type":"event"}"#)).unwrap()).await;
            assert_eq!(got.status.as_u16(), 200, "{right}");
        }
    }
}

#[tokio::test]
async fn bodies_and_ids_that_make_no_sense() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        let deep = "[".repeat(100_000);
        for body in ["", "{", "[]", "7", "\"\"", "null", r#"{"type":"x"}"#, r#"{"type":7}"#, &deep]
        {
            for path in ["/data/d1/out", "/control/d1/out"] {
                let got = client.ask(post(path, body.to_owned())).await;
                assert_eq!(got.status.as_u16(), 422, "{body:.20}");
                assert!(got.message().len() < 600);
            }
        }
        let long = "a".repeat(254);
        for id in ["register", "REGISTER", "-a", "a_b", "a..b", "%41%0d%0a", &long] {
            let got = client.ask(get(&format!("/data/{id}/in"))).await;
            assert_eq!((got.status.as_u16(), got.body.len()), (422, 0), "{id}");
            assert!(!got.header("x-flashjob-reason").is_empty(), "{id}");
            assert!(!got.headers.contains_key("content-type"));
            let got = client.ask(post(&format!("/data/{id}/out"), "{}")).await;
            assert_eq!(got.status.as_u16(), 422, "{id}");
            assert!(got.message().len() < 600);
        }
        // A refusal is in a header on one side and in the body on the other.
        let got = client.ask(get("/control/refused/in")).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (403, 0));
        assert_eq!(got.header("x-flashjob-reason"), "not\\r\\nyou \\u{1b}[1m");
        let got = client.ask(post("/control/refused/out", "{}")).await;
        assert_eq!((got.status.as_u16(), got.message().as_str()), (403, "not\\r\\nyou \\u{1b}[1m"));
    }
}

#[tokio::test]
async fn a_body_that_is_too_long() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let fits = format!(
            r#"{{"type":"data","directive":"heartbeat","content":"{}"}}"#,
            "x".repeat(1_000_000)
        );
        let got = api.client(manner).await.ask(post("/data/d1/out", fits)).await;
        assert_eq!(got.status.as_u16(), 200);
        // Hyper's client may not get to read the answer when its own sending breaks first.
        let long = vec![b' '; (1 << 20) + 1];
        if let Ok(got) = api.client(manner).await.send(post("/data/d1/out", long)).await {
            assert_eq!(got.status.as_u16(), 413);
            assert!(got.message().contains("1048576"));
        }
    }
}
