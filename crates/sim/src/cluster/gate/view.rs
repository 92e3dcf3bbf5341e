//! What a program sees of the cluster through a gate: lists of the past, and watches that lag or leave something out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};

use super::{Call, EventJudge, lock};

/// One event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The resource in the plural, such as `pods`.
    pub resource: String,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub change: String,
}

/// What becomes of an event. Those behind it come after it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFate {
    /// It comes through.
    Pass,
    /// It comes through this much later: the watch stands still.
    Delay(Duration),
    /// It is lost, and nobody says so.
    Lose,
    /// It is lost, and the watch is told that what it asks for is gone: 410.
    Gone,
    /// The watch is cut off before it.
    Cut,
}

/// How many lists are remembered; more than the kinds a program asks for.
const MOST_LISTS: usize = 64;

/// Lists as they were answered the first time.
#[derive(Default)]
pub(super) struct Lists(Mutex<HashMap<String, Bytes>>);

impl Lists {
    pub(super) fn remember(&self, call: &Call, body: &Bytes) {
        let mut lists = lock(&self.0);
        if lists.len() < MOST_LISTS {
            lists.entry(key(call)).or_insert_with(|| body.clone());
        }
    }

    pub(super) fn first(&self, call: &Call) -> Option<String> {
        let body = lock(&self.0).get(&key(call))?.clone();
        String::from_utf8(body.to_vec()).ok()
    }
}

fn key(call: &Call) -> String {
    format!("{}?{}", call.path, call.query.as_deref().unwrap_or_default())
}

/// A watch's answer, with each event judged before it comes through.
pub(super) fn judged(
    body: Body,
    resource: String,
    judge: Option<Arc<EventJudge>>,
) -> UnsyncBoxBody<Bytes, anyhow::Error> {
    let lines = Lines { body: body.into_data_stream().boxed(), buffer: BytesMut::new() };
    let events = futures::stream::unfold((lines, false), move |(mut lines, over)| {
        let (judge, resource) = (judge.clone(), resource.clone());
        async move {
            if over {
                return None;
            }
            loop {
                let line = match lines.next().await? {
                    Ok(line) => line,
                    Err(error) => return Some((Err(error), (lines, true))),
                };
                let fate = judge.as_ref().map_or(EventFate::Pass, |j| j(&event(&resource, &line)));
                let (line, over) = match fate {
                    EventFate::Pass => (line, false),
                    EventFate::Delay(time) => {
                        tokio::time::sleep(time).await;
                        (line, false)
                    }
                    EventFate::Lose => continue,
                    EventFate::Gone => (gone(), true),
                    EventFate::Cut => {
                        return Some((Err(anyhow::anyhow!("cut off")), (lines, true)));
                    }
                };
                return Some((Ok(Frame::data(line)), (lines, over)));
            }
        }
    });
    StreamBody::new(events).boxed_unsync()
}

fn event(resource: &str, line: &[u8]) -> Event {
    let line: Value = serde_json::from_slice(line).unwrap_or_default();
    let change = line["type"].as_str().unwrap_or_default().to_owned();
    Event { resource: resource.to_owned(), change }
}

/// As the API server says it.
fn gone() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    Bytes::from(format!("{}\n", json!({ "type": "ERROR", "object": status })))
}

/// A body cut into its lines.
struct Lines {
    body: futures::stream::BoxStream<'static, Result<Bytes, kube::Error>>,
    buffer: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, anyhow::Error>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(Ok(self.buffer.split_to(end + 1).freeze()));
            }
            match self.body.next().await? {
                Ok(more) => self.buffer.extend_from_slice(&more),
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
