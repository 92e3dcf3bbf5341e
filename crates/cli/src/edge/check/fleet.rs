//! What is judged of devices and of those that wait to be let in.

use jiff::Timestamp;

use crate::check::{Check, Observed, some_of};
use crate::edge::device::{Device, KeyState, days_until};
use crate::edge::read::Kind;
use crate::edge::request::Request;

/// From when on the end of a device's certificate is said. Our agent has renewed it long before.
const SOON: i64 = 14;

pub fn devices(observed: &Observed<Vec<Device>>, now: Timestamp) -> Check {
    let what = "devices";
    let devices = match observed {
        Ok(devices) => devices,
        Err(error) => return error.unsure(what, "kubectl flashjob edge devices"),
    };
    let ends_soon = |device: &&Device| {
        let end = device.certificate_ends();
        end.is_some_and(|end| days_until(end, now) < SOON)
    };
    let silent =
        |device: &&Device| device.condition("Ready").is_some_and(|ready| ready.status != "True");
    let unreadable = |device: &&Device| device.key() == KeyState::Unreadable;
    let named = |choice: &dyn Fn(&&Device) -> bool, what: &str| {
        let names: Vec<String> = devices.iter().filter(choice).map(Kind::path).collect();
        (!names.is_empty()).then(|| format!("{} {what}: {}", names.len(), some_of(&names)))
    };
    let found: Vec<String> = [
        named(&unreadable, "whose record of keys cannot be read"),
        named(&ends_soon, "whose certificate ends within two weeks or has ended"),
        named(&silent, "that do not report"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if found.is_empty() {
        return Check::ok(what, format!("{} that you may see", devices.len()));
    }
    let finding = format!("of {}: {}", devices.len(), found.join("; "));
    Check::unsure(what, finding, "what to do about one: kubectl flashjob edge explain DEVICE")
}

pub fn requests(observed: &Observed<Vec<Request>>) -> Check {
    let what = "requests";
    let requests = match observed {
        Ok(requests) => requests,
        Err(error) => return error.unsure(what, "kubectl flashjob edge requests"),
    };
    let waiting: Vec<String> =
        requests.iter().filter(|request| request.waits()).map(Kind::path).collect();
    if waiting.is_empty() {
        return Check::ok(what, "nobody waits to be let in");
    }
    let finding = format!("{} wait to be let in: {}", waiting.len(), some_of(&waiting));
    Check::unsure(what, finding, "kubectl flashjob edge approve DEVICE, or decline")
}
