//! The server's certificate. One that no CA of ours has signed was put there by a person, and stays.

use jiff::{SignedDuration, Timestamp};

use super::{
    AuthorityFacts, Facts, Found, LEAF_LIFE, LeafFacts, Life, Plan, SERVER_SECRET, Step, day,
};
use crate::time::later;

/// From when on the end of a certificate that we do not renew is said.
const WARNING: SignedDuration = SignedDuration::from_hours(24 * 30);

pub fn decide(facts: &Facts, ca: &AuthorityFacts, now: Timestamp, plan: &mut Plan) {
    let life = Life::from(now, LEAF_LIFE, ca.life.not_after);
    let make = Step::MakeServer { life, names: facts.names.clone() };
    match (&facts.server, &facts.server_in_memory) {
        // While flotta-ca is being put back nothing else is written.
        _ if !plan.steps.is_empty() => {}
        (Found::Missing, Some(_)) => {
            plan.say(format!("Secret {SERVER_SECRET} was deleted; it is put back as it was"));
            plan.steps.push(Step::PutBackServer);
        }
        (Found::Missing, None) if life.not_after > now => plan.steps.push(make),
        (Found::Missing, None) => {}
        (Found::Unreadable(why), None) => plan.say(format!(
            "{why}. Devices cannot be served; restore it, or delete it and it is made anew"
        )),
        (Found::Unreadable(why), Some(_)) => plan.say(format!(
            "{why}. What was read before is served until this process ends; restore it, or delete it"
        )),
        (Found::Read(server), _) if server.signed_by.is_none() => said(server, now, plan),
        (Found::Read(server), _) => {
            if wants_another(server, &facts.names, ca, life, now) {
                plan.steps.push(make);
            } else if server.is_over(now) {
                plan.say(format!(
                    "the certificate in Secret {SERVER_SECRET} ended on {}",
                    day(server.life.not_after)
                ));
            }
            plan.look_at(next_look(server, now));
        }
    }
}

fn wants_another(
    server: &LeafFacts,
    names: &[String],
    ca: &AuthorityFacts,
    life: Life,
    now: Timestamp,
) -> bool {
    let sorted = |names: &[String]| {
        let mut names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let renamed = sorted(&server.names) != sorted(names);
    let rotated = server.signed_by.as_ref() != Some(&ca.id);
    // One that ends with its CA cannot be made to last longer.
    let old = server.life.renewal() <= now && life.not_after > server.life.not_after;
    life.not_after > now && (renamed || rotated || old)
}

/// It is used as it is.
fn said(server: &LeafFacts, now: Timestamp, plan: &mut Plan) {
    let end = server.life.not_after;
    let end = if server.is_over(now) {
        format!("It ended on {}: put another one there", day(end))
    } else if end <= later(now, WARNING) {
        format!("It ends on {}: put another one there", day(end))
    } else {
        "Devices have to trust whoever signed it".to_owned()
    };
    plan.say(format!(
        "the certificate in Secret {SERVER_SECRET} was not signed by the CA in flotta-ca; it is used as it is and not renewed. \
         {end}. If the Secret is deleted while the operator is stopped, a certificate is made"
    ));
}

fn next_look(server: &LeafFacts, now: Timestamp) -> Timestamp {
    let times = [server.life.renewal(), server.life.not_after];
    times.into_iter().find(|time| *time > now).unwrap_or(Timestamp::MAX)
}
