//! What a board's HTTP server answers.

use std::time::Duration;

use tokio::time::timeout;

use super::dice::{Identity, MacAddress};
use super::fault::{Fault, Place};
use super::http::{Answer, Request};
use super::life::{Core, Job, Order};

/// As much of the body of `POST /update` is looked at.
const UPDATE_BODY: usize = 21;
/// What `/info` is printed into, the zero at the end included.
const INFO_BUFFER: usize = 100;
/// How long a body may take.
pub(super) const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn answer(core: &Core, request: &mut Request<'_>) -> Answer {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/info") => info(core),
        ("GET", "/onboard") => onboard(core).await,
        ("GET", "/temp") => Answer::html("200 OK", temperature(core)),
        ("POST", "/update") => update(core, request).await,
        (_, "/info" | "/onboard" | "/temp" | "/update") => Answer::failure(
            "405 Method Not Allowed",
            "Specified method is invalid for this resource",
        ),
        _ => not_found(),
    }
}

fn not_found() -> Answer {
    Answer::failure("404 Not Found", "Nothing matches the given URI")
}

fn unexpected() -> Answer {
    Answer::html("500 Internal Server Error", "Server has encountered an unexpected error")
}

fn info(core: &Core) -> Answer {
    let mut state = core.state();
    if state.faults.draw(Place::Info).contains(&Fault::InfoFails) {
        return unexpected();
    }
    state.ledger.infos += 1;
    let version = state.flash.app().map(|app| app.version.as_str()).unwrap_or_default();
    let (device, application) = (&core.options.device, &core.options.application);
    let json =
        format!(r#"{{"device":"{device}","application":"{application}","version":"{version}"}}"#);
    let mut json = json.into_bytes();
    json.truncate(INFO_BUFFER - 1);
    Answer::json(json)
}

/// A temperature between 0 and 50 that changes.
fn temperature(core: &Core) -> String {
    (core.state().ledger.infos * 7 % 51).to_string()
}

async fn onboard(core: &Core) -> Answer {
    let (faults, made) = {
        let mut state = core.state();
        state.ledger.onboards += 1;
        (state.faults.draw(Place::Onboard), state.certificate_made)
    };
    if faults.contains(&Fault::NoOnboard) {
        return not_found();
    }
    if !made {
        // Nobody else is answered in the meantime.
        core.wait(core.options.certificate_takes).await;
        core.state().certificate_made = true;
    }
    let mac = faults.iter().find_map(|fault| match fault {
        Fault::OnboardsAs(mac) => Some(*mac),
        _ => None,
    });
    match certificate(mac.unwrap_or(core.options.mac)).await {
        Some(der) if !faults.contains(&Fault::OnboardFails) => Answer::html("200 OK", der),
        _ => Answer::html("500 Internal Server Error", "Could not generate the certificate"),
    }
}

/// A board's attestation certificate. In a debug build it takes long enough to be in the way of others.
pub(super) async fn certificate(mac: MacAddress) -> Option<Vec<u8>> {
    let made = tokio::task::spawn_blocking(move || Identity::of(mac)).await;
    Some(made.ok()?.ok()?.attestation_der().to_vec())
}

async fn update(core: &Core, request: &mut Request<'_>) -> Answer {
    let faults = {
        let mut state = core.state();
        state.ledger.posts += 1;
        state.faults.draw(Place::Post)
    };
    if faults.contains(&Fault::Answers500) {
        return unexpected();
    }
    if faults.contains(&Fault::NoAnswer) {
        core.wait(RECEIVE_TIMEOUT).await;
        return Answer::None;
    }
    let raw = faults.contains(&Fault::RawTcp);
    // Without TLS the body is not even read: the server comes to the board.
    let server = if raw {
        String::new()
    } else {
        match timeout(core.scaled(RECEIVE_TIMEOUT), request.body(UPDATE_BODY)).await {
            Err(_) => {
                return Answer::failure("408 Request Timeout", "Server closed this connection");
            }
            Ok(body) if body.is_empty() => return Answer::None,
            Ok(body) => server(&body),
        }
    };
    let job = {
        let mut state = core.state();
        let under = state.faults.draw(Place::Update);
        let number = state.ledger.begin(server.clone(), [&faults[..], &under].concat());
        Job { number, server, faults: under, raw }
    };
    // An error means that the board is going.
    let _ = core.orders.send(Order::Update(job));
    if faults.contains(&Fault::AnswerLost) {
        return Answer::None;
    }
    let kind = if raw { "Insecure" } else { "Secure" };
    Answer::html("200 OK", format!("Received update request: About to update ({kind})\n"))
}

/// What `sscanf(body, "ip: %s")` finds: white space matches any white space, also none.
fn server(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let rest = body.strip_prefix("ip:").unwrap_or_default();
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_as_sscanf_reads_it() {
        assert_eq!(server(b"ip: 192.168.100.200"), "192.168.100.200");
        assert_eq!(server(b"ip:10.0.0.1\n"), "10.0.0.1");
        assert_eq!(server(b"10.0.0.1"), "");
        assert_eq!(server(b"ip: "), "");
    }
}
