//! The CA: whether there is one, and what a person has asked of it.

use jiff::{SignedDuration, Timestamp};

use super::{
    AuthorityFacts, CA_LIFE, CA_SECRET, COMMAND, Command, Facts, Found, Life, Plan,
    REGISTRATION_SECRET, SERVER_SECRET, Step, day,
};
use crate::time::later;

/// From when on the end of a CA is said: devices that are off for long have to come by before it.
const WARNING: SignedDuration = SignedDuration::from_hours(24 * 180);

/// The CA to go on with, if there is one.
pub fn decide<'a>(facts: &'a Facts, now: Timestamp, plan: &mut Plan) -> Option<&'a AuthorityFacts> {
    let ca = match (&facts.ca, &facts.ca_in_memory) {
        (Found::Read(ca), _) => ca,
        (Found::Missing, None) => {
            make(facts, now, plan);
            return None;
        }
        (Found::Missing, Some(ca)) => {
            plan.say(format!("Secret {CA_SECRET} was deleted; it is put back as it was"));
            plan.steps.push(Step::PutBackCa);
            ca
        }
        (Found::Unreadable(why), None) => {
            plan.say(format!("{why}. Nothing is written until it is restored"));
            return None;
        }
        (Found::Unreadable(why), Some(ca)) => {
            plan.say(format!("{why}. What was read before is used until this process ends"));
            ca
        }
    };
    let end = ca.life.not_after;
    if end <= now {
        plan.say(format!(
            "the CA in Secret {CA_SECRET} ended on {}, so nothing can be signed; annotate it with {COMMAND}=rotate",
            day(end)
        ));
    } else if end <= later(now, WARNING) {
        plan.say(format!(
            "the CA in Secret {CA_SECRET} ends on {}; annotate it with {COMMAND}=rotate, and later with {COMMAND}=retire",
            day(end)
        ));
    }
    plan.look_at(if end > now { end } else { plan.again });
    Some(ca)
}

/// There is none. It is made only if there never was one: another would be trusted by no device.
fn make(facts: &Facts, now: Timestamp, plan: &mut Plan) {
    let Some(devices) = &facts.devices else {
        plan.say(format!(
            "Secret {CA_SECRET} is missing; whether it may be made is known when every EdgeDevice was listed"
        ));
        return;
    };
    let mut left = Vec::new();
    if !facts.server.is_missing() {
        left.push(format!("Secret {SERVER_SECRET}"));
    }
    if !facts.registrations.is_empty() {
        left.push(format!("Secrets with the label {REGISTRATION_SECRET}=true"));
    }
    if devices.any() {
        left.push("EdgeDevices that hold certificates".to_owned());
    }
    if left.is_empty() {
        plan.steps.push(Step::MakeCa(Life::from(now, CA_LIFE, Timestamp::MAX)));
        return;
    }
    plan.say(format!(
        "Secret {CA_SECRET} is missing, but there are {}; a new CA would lock every device out. Restore the Secret, or delete \
         those to begin anew",
        left.join(" and ")
    ));
}

/// Does what the annotation asks for, or says why not. Only what was read can be changed.
pub fn obey(facts: &Facts, ca: &AuthorityFacts, now: Timestamp, plan: &mut Plan) {
    let Some(command) = facts.ca.read().and_then(|ca| ca.command.as_ref()) else { return };
    let step = match command {
        Command::Rotate => rotate(ca, now),
        Command::Retire => match retire(facts, ca) {
            Some(step) => step,
            None => return plan.say("retire waits until every EdgeDevice was listed and the server has its new certificate"),
        },
        Command::Unknown(text) => Step::Answer {
            message: format!("{text:?} is not known; it can be rotate or retire"),
        },
    };
    plan.steps.push(step);
}

fn rotate(ca: &AuthorityFacts, now: Timestamp) -> Step {
    if let Some(previous) = &ca.previous {
        return Step::Answer {
            message: format!(
                "not rotated: the CA {previous} from before is still trusted; retire it first"
            ),
        };
    }
    let life = Life::from(now, CA_LIFE, Timestamp::MAX);
    let cross = Life { not_after: life.not_after.min(ca.life.not_after), ..life };
    let message =
        format!("rotated on {}: the CA {} is still trusted, until it is retired", day(now), ca.id);
    Step::Rotate { life, cross, message }
}

/// `None` if it is too early to tell.
fn retire(facts: &Facts, ca: &AuthorityFacts) -> Option<Step> {
    let Some(previous) = &ca.previous else {
        let message = "nothing to retire: there is one CA".to_owned();
        return Some(Step::Answer { message });
    };
    let holders = facts.devices.as_ref()?.depend_on(previous);
    if holders.count > 0 {
        let some = holders.some.iter().take(5).cloned().collect::<Vec<_>>();
        let one = holders.count == 1;
        let more = if holders.count > some.len() { ", ..." } else { "" };
        let message = format!(
            "not retired: {} EdgeDevice{} depend{} on the CA {previous}: {}{more}. Our agent renews by itself; any other is \
             registered anew, or its EdgeDevice deleted",
            holders.count,
            if one { "" } else { "s" },
            if one { "s" } else { "" },
            some.join(", ")
        );
        return Some(Step::Answer { message });
    }
    let server = facts.server.read().or(facts.server_in_memory.as_ref());
    if server.is_some_and(|server| server.signed_by.as_ref() == Some(previous)) {
        return None;
    }
    Some(Step::Retire { message: format!("retired: the CA {previous} is not trusted any more") })
}
