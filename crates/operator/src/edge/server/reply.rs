//! Answers as they go over the wire.
//!
//! An error is `{"code","message"}`, as the original's. On `…/in` the original's gateway takes any body for a message, so
//! there all but 200 is without one, and the sentence is in a header.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, ETAG, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

use super::DeviceAnswer;
use super::text::plain;

pub const REASON: HeaderName = HeaderName::from_static("x-flashjob-reason");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub type Reply = Response<Full<Bytes>>;

/// `bare`: all but 200 is without a body.
pub fn reply(answer: DeviceAnswer, bare: bool) -> Reply {
    let DeviceAnswer { status, reason, body, etag, retry_after, held } = answer;
    let reason = reason.map(|reason| plain(&reason));
    let bodiless = status == StatusCode::NOT_MODIFIED || status == StatusCode::NO_CONTENT;
    let body = match (body, &reason) {
        _ if bodiless || bare && status != StatusCode::OK => None,
        (Some(body), _) => Some(body),
        (None, Some(reason)) if !status.is_success() => Some(error_body(status, reason)),
        (None, _) => None,
    };
    let has_body = body.as_ref().is_some_and(|body| !body.is_empty());
    let mut reply = Response::new(Full::new(body.unwrap_or_default()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    if has_body {
        headers.insert(CONTENT_TYPE, JSON);
    }
    if bare && let Some(reason) = reason.and_then(|reason| HeaderValue::try_from(reason).ok()) {
        headers.insert(REASON, reason);
    }
    if let Some(etag) = etag.and_then(|etag| HeaderValue::try_from(etag).ok()) {
        headers.insert(ETAG, etag);
    }
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let Some(applied) = held.and_then(|n| HeaderValue::try_from(format!("wait={n}")).ok()) {
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    reply
}

fn error_body(status: StatusCode, message: &str) -> Bytes {
    json!({ "code": status.as_u16(), "message": message }).to_string().into()
}

/// A path that is there, but not for this method. `bare`: without a body.
pub fn not_allowed(method: &Method, allowed: &Method, bare: bool) -> Reply {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let message = plain(&format!("method {method} is not allowed, but [{allowed}] are"));
    let allowed = allowed.as_str();
    let body = json!({ "code": status.as_u16(), "message": message, "allowed": [allowed] });
    let body = Some(body.to_string().into());
    let mut reply = reply(DeviceAnswer { body, ..DeviceAnswer::refusal(status, message) }, bare);
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        reply.headers_mut().insert(ALLOW, allowed);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_body_or_a_header_and_breaks_neither() {
        let refusal = || DeviceAnswer::refusal(StatusCode::FORBIDDEN, "no\r\nX: y \"ü\"");
        let bare = reply(refusal(), true);
        assert_eq!(bare.headers()[REASON], "no\\r\\nX: y \"\\u{fc}\"");
        assert!(!bare.headers().contains_key(CONTENT_TYPE));
        let full = reply(refusal(), false);
        assert_eq!(full.headers()[CONTENT_TYPE], "application/json");
        assert!(!full.headers().contains_key(REASON));
    }
}
