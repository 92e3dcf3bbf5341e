//! What is judged of the certificates. What is wrong with them is said in the words of the plan that the operator follows.

use flashjob_plan::edge::certificates::{
    CA_SECRET, Facts, Found, LeafFacts, SERVER_SECRET, current_registration, decide,
};
use jiff::Timestamp;

use crate::check::{Check, Observed, ReadError};
use crate::edge::device::{Device, days_until, keys_by_ca};
use crate::edge::secrets::Secrets;
use crate::table::{counted, day};

const RESTORE: &str = "see \"When a Secret is deleted or spoilt\" in docs/edge-security.md";

pub fn judge(
    secrets: &Observed<Secrets>,
    devices: &Observed<Vec<Device>>,
    home: &str,
    now: Timestamp,
) -> Vec<Check> {
    let what = "certificates";
    let secrets = match secrets {
        Ok(secrets) => secrets,
        Err(ReadError::Forbidden) => {
            let fix = format!(
                "who administrates namespace {home}: kubectl flashjob edge ca status. Nobody else needs to: who may read \
                 Secrets there can make certificates for any device"
            );
            return vec![Check::unsure(what, "you may not look", fix)];
        }
        Err(error) => return vec![error.unsure(what, "kubectl flashjob edge ca status")],
    };
    let keys = devices.as_ref().ok().map(|devices| keys_by_ca(devices));
    let facts = secrets.facts(keys);
    let mut checks = vec![ca(&facts, now), server(&facts, now), registration(&facts, now)];
    let said = |problem: &String| checks.iter().any(|check| check.finding.contains(problem));
    let more: Vec<Check> = decide(&facts, now)
        .problems
        .into_iter()
        .filter(|problem| !said(problem) && !facts.ca.is_missing())
        .map(|problem| Check::unsure(what, problem, "see docs/edge-security.md"))
        .collect();
    checks.extend(more);
    checks
}

fn ca(facts: &Facts, now: Timestamp) -> Check {
    let what = "CA";
    let ca = match &facts.ca {
        Found::Read(ca) => ca,
        Found::Unreadable(why) => return Check::fail(what, why.clone(), RESTORE),
        Found::Missing => {
            let why = decide(facts, now).problems.into_iter().next();
            let why = why.unwrap_or_else(|| {
                format!("Secret {CA_SECRET} is not there; the operator makes it when it works")
            });
            return Check::fail(what, why, RESTORE);
        }
    };
    let end = ca.life.not_after;
    if end <= now {
        let finding = format!("{} ended on {}, so nothing can be signed", ca.id, day(end));
        return Check::fail(what, finding, "kubectl flashjob edge ca rotate");
    }
    let before = match &ca.previous {
        Some(previous) => {
            let holders = facts.devices.as_ref().and_then(|devices| devices.by_ca.get(previous));
            let count = holders.map_or(0, |holders| holders.count);
            let devices = counted(count, "device");
            format!("; {previous} from before is still trusted, and held by {devices}")
        }
        None => String::new(),
    };
    Check::ok(what, format!("{}, {}{before}", ca.id, good_until(end, now)))
}

fn server(facts: &Facts, now: Timestamp) -> Check {
    let what = "server certificate";
    match &facts.server {
        Found::Read(server) if server.life.not_after <= now => Check::fail(
            what,
            format!("it ended on {}", day(server.life.not_after)),
            format!(
                "if it is yours, put another one into Secret {SERVER_SECRET}; else see the operator's log"
            ),
        ),
        Found::Read(server) => Check::ok(what, leaf(server, now)),
        Found::Unreadable(why) => Check::fail(what, why.clone(), RESTORE),
        Found::Missing => Check::fail(
            what,
            format!("Secret {SERVER_SECRET} is not there; the operator makes it when it works"),
            "see the line operator",
        ),
    }
}

fn registration(facts: &Facts, now: Timestamp) -> Check {
    let what = "registration certificate";
    let current = current_registration(facts, now);
    let found = facts.registrations.iter().find(|r| Some(r.secret.as_str()) == current);
    match found.and_then(|registration| Some((&registration.secret, registration.found.read()?))) {
        Some((secret, leaf)) => {
            Check::ok(what, format!("Secret {secret}, {}", good_until(leaf.life.not_after, now)))
        }
        None => Check::fail(
            what,
            "there is none that is good and signed by the CA; the operator makes one when it works",
            "see the lines operator and CA",
        ),
    }
}

fn leaf(leaf: &LeafFacts, now: Timestamp) -> String {
    format!("for {}, {}", leaf.names.join(", "), good_until(leaf.life.not_after, now))
}

fn good_until(end: Timestamp, now: Timestamp) -> String {
    format!("good until {} ({} days)", day(end), days_until(end, now))
}
