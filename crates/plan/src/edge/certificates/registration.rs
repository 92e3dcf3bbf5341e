//! The certificates that devices register with. The newest is the one to hand out; those before it are good until they end,
//! since they are in images that are not rolled out yet.

use jiff::Timestamp;

use super::{
    AuthorityFacts, Facts, Found, LEAF_LIFE, LeafFacts, Life, Plan, REGISTRATION_SECRET, Step,
};

pub fn decide(facts: &Facts, ca: &AuthorityFacts, now: Timestamp, plan: &mut Plan) {
    let life = Life::from(now, LEAF_LIFE, ca.life.not_after);
    let newest = current(facts, ca, now);
    for registration in &facts.registrations {
        match &registration.found {
            Found::Unreadable(why) => plan.say(format!(
                "{why}. No device can be given it; delete it, and if there is no other one is made"
            )),
            Found::Read(leaf) if leaf.signed_by.is_none() && !leaf.is_over(now) => {
                plan.say(format!(
                    "the certificate in Secret {} was not signed by a CA that is trusted, so nobody can register with it; \
                     delete it",
                    registration.secret
                ));
            }
            _ => {}
        }
    }
    // While flotta-ca is being put back nothing else is written.
    if plan.steps.contains(&Step::PutBackCa) {
        return;
    }
    if let Some(name) = deleted(facts, ca, newest, now) {
        plan.say(format!("Secret {name} was deleted; it is put back as it was"));
        plan.steps.push(Step::PutBackRegistration);
        return;
    }
    match newest {
        None if life.not_after > now => plan.steps.push(Step::MakeRegistration(life)),
        None => {}
        Some((_, leaf)) => {
            let renewal = leaf.life.renewal();
            if renewal > now {
                plan.look_at(renewal);
            } else if life.not_after > leaf.life.not_after {
                plan.steps.push(Step::MakeRegistration(life));
            }
            clean_up(facts, now, plan);
        }
    }
}

/// The Secret that was handed out until now, if it is gone and there is no newer one.
fn deleted<'a>(
    facts: &'a Facts,
    ca: &AuthorityFacts,
    newest: Option<(&str, &LeafFacts)>,
    now: Timestamp,
) -> Option<&'a str> {
    let (name, leaf) = facts.registration_in_memory.as_ref()?;
    let gone = !facts.registrations.iter().any(|registration| registration.secret == *name);
    let newer = newest.is_some_and(|(_, other)| other.life.not_before >= leaf.life.not_before);
    (gone && !newer && is_good(leaf, ca, now)).then_some(name)
}

/// Whether devices can register with it now, and after the next retirement.
fn is_good(leaf: &LeafFacts, ca: &AuthorityFacts, now: Timestamp) -> bool {
    leaf.signed_by.as_ref() == Some(&ca.id) && !leaf.is_over(now)
}

/// The Secret to hand out, and what is in it.
pub fn current<'a>(
    facts: &'a Facts,
    ca: &AuthorityFacts,
    now: Timestamp,
) -> Option<(&'a str, &'a LeafFacts)> {
    let read = facts.registrations.iter().filter_map(|registration| {
        registration.found.read().map(|leaf| (registration.secret.as_str(), leaf))
    });
    let good = read.filter(|(_, leaf)| is_good(leaf, ca, now));
    good.max_by_key(|(name, leaf)| (leaf.life.not_before, *name))
}

/// Flotta has left one behind for every start of its own.
fn clean_up(facts: &Facts, now: Timestamp, plan: &mut Plan) {
    for registration in &facts.registrations {
        let Some(leaf) = registration.found.read() else { continue };
        if !registration.secret.starts_with(REGISTRATION_SECRET) {
            continue;
        }
        if leaf.is_over(now) {
            plan.steps.push(Step::DeleteExpiredRegistration(registration.secret.clone()));
        } else {
            plan.look_at(leaf.life.not_after);
        }
    }
}
