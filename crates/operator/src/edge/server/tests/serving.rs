//! What goes well: every path over h1 and h2, kept-alive, with any certificate, and a server that ends in good order.

use super::client::{request, whole};
use super::*;

fn said(directive: &str) -> String {
    format!(
        r#"{{"type":"data","message_id":"m1","response_to":"","version":1,"sent":"2022-03-20T14:45:25.271Z","directive":"{directive}","metadata":null,"content":{{"a":1}}}}"#
    )
}

#[tokio::test]
async fn every_path_is_answered_over_h1_and_h2_on_one_connection() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        let got = client.ask(get("/data/D1/in")).await;
        assert_eq!((got.status.as_u16(), got.header("etag")), (200, "\"v1\""));
        assert_eq!(got.header("content-type"), "application/json");
        assert_eq!(got.text(), r#"{"device":"d1","chain":1}"#);
        let known = request("GET", "/data/d1/in").header("if-none-match", "\"v1\"");
        let got = client.ask(known.body(whole("")).unwrap()).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (304, 0));

        let got = client.ask(get("/control/d1/in")).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (200, 0));
        assert!(!got.headers.contains_key("content-type"));

        let got = client.ask(post("/data/d1/out", said("registration"))).await;
        assert_eq!((got.status.as_u16(), got.text()), (200, r#"{"message_id":"m1"}"#.into()));
        let got = client.ask(post("/data/d1/out", said("enrolment"))).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (208, 0));
        let got = client.ask(post("/data/d1/out", said("what"))).await;
        assert_eq!((got.status.as_u16(), got.message()), (400, "directive what".into()));
        let status = r#"{"type":"connection-status","content":null}"#;
        let got = client.ask(post("/control/d1/out", status)).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (200, 0));
    }
}

#[tokio::test]
async fn swagger_json_is_json_and_names_every_path() {
    let api = Api::start(Settings::default()).await;
    let got = api.client(Manner::H2).await.ask(get("/swagger.json")).await;
    let swagger: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!((&swagger["swagger"], &swagger["basePath"]), (&"2.0".into(), &BASE.into()));
    for (method, path) in [
        ("get", "/data/{device_id}/in"),
        ("post", "/data/{device_id}/out"),
        ("get", "/control/{device_id}/in"),
        ("post", "/control/{device_id}/out"),
    ] {
        assert!(swagger["paths"][path][method]["responses"].is_object(), "{path}");
    }
    // Every reference leads somewhere.
    let text = got.text();
    for reference in text.split("\"#/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(swagger.pointer(&format!("/{reference}")).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn a_panic_is_a_500_for_that_request_alone() {
    let api = Api::start(Settings::default()).await;
    for manner in BOTH {
        let mut client = api.client(manner).await;
        let got = client.ask(post("/data/panics/out", said("heartbeat"))).await;
        assert_eq!(got.status.as_u16(), 500);
        assert!(got.message().contains("the server has made a mistake"));
        let got = client.ask(get("/data/panics-at-once/in")).await;
        assert_eq!((got.status.as_u16(), got.body.len()), (500, 0));
        assert_eq!(client.ask(get("/data/d1/in")).await.status.as_u16(), 200);
    }
    assert_eq!(api.metrics.refusals(metrics::Cause::Panic), 4);
}

#[tokio::test]
async fn what_is_under_way_at_the_end_is_answered_and_what_hangs_is_cut_off() {
    for manner in BOTH {
        let api = Api::start(Settings::default()).await;
        let (mut idle, mut slow) = (api.client(manner).await, api.client(manner).await);
        let mut hangs = api.client(manner).await;
        assert_eq!(idle.ask(get("/data/d1/in")).await.status.as_u16(), 200);
        let slow = tokio::spawn(async move { slow.send(get("/data/slow/in")).await });
        let hangs = tokio::spawn(async move { hangs.send(get("/data/hangs/in")).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        api.stop.send(true).unwrap();
        let ended = tokio::time::timeout(PATIENCE, api.task).await;
        ended.expect("an end").expect("no panic").expect("no error");
        assert_eq!(slow.await.unwrap().unwrap().status.as_u16(), 200);
        assert!(hangs.await.unwrap().is_err());
        assert!(idle.send(get("/data/d1/in")).await.is_err());
        assert!(tokio::net::TcpStream::connect(api.address).await.is_err());
    }
}
