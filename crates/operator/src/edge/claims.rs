//! The ObjectBucketClaims of the served namespaces, where the cluster has such a kind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use flashjob_plan::edge::storage::{ClaimFacts, Known};
use tokio::time::Instant;

use super::tombstones::Place;
use crate::engine::watch::WatchEvent;

/// From one claim that is tried again to the next, of all of them: a quota may refuse those of a whole fleet.
const TURN: Duration = Duration::from_millis(250);

#[derive(Default)]
pub struct Claims {
    /// Whether the cluster has the kind; `None`: nobody could say so far.
    kind: Option<bool>,
    /// Namespaces whose list is complete.
    listed: HashSet<String>,
    /// What a list that is under way has named so far.
    listing: HashMap<String, BTreeSet<String>>,
    /// By namespace and name.
    there: HashMap<String, HashMap<String, ClaimFacts>>,
    next_turn: Option<Instant>,
}

/// For which devices something is different.
#[derive(Debug, PartialEq, Eq)]
pub enum Concerned {
    All,
    These(BTreeSet<String>),
}

impl Claims {
    /// What is known of the claim of a device.
    pub fn of(&self, (namespace, name): &Place) -> Known<'_> {
        match self.kind {
            Some(false) => Known::NoKind,
            Some(true) if self.listed.contains(namespace) => {
                Known::Listed(self.there.get(namespace).and_then(|there| there.get(name)))
            }
            _ => Known::Nothing,
        }
    }

    /// Whether all there is to know of these namespaces is known.
    pub fn are_known(&self, namespaces: &[String]) -> bool {
        self.kind == Some(false) || namespaces.iter().all(|name| self.listed.contains(name))
    }

    /// The cluster has such a kind, or has none, or none any more.
    pub fn has_kind(&mut self, there: bool) {
        *self = Self { kind: Some(there), ..Self::default() };
    }

    /// A write of ours was answered. What a watch has said is no older.
    pub fn made(&mut self, (namespace, name): &Place, claim: ClaimFacts) {
        if let Some(listing) = self.listing.get_mut(namespace) {
            listing.insert(name.clone());
        }
        let there = self.there.entry(namespace.clone()).or_default();
        there.entry(name.clone()).or_insert(claim);
    }

    /// A watch has seen something.
    pub fn take(&mut self, namespace: &str, event: WatchEvent<(String, ClaimFacts)>) -> Concerned {
        let these = |name| Concerned::These(BTreeSet::from([name]));
        let none = Concerned::These(BTreeSet::new());
        if self.kind != Some(true) {
            // It comes from a watch that was ended.
            return none;
        }
        let there = self.there.entry(namespace.to_owned()).or_default();
        match event {
            WatchEvent::Listing => {
                self.listing.insert(namespace.to_owned(), BTreeSet::new());
                none
            }
            WatchEvent::There((name, claim)) => {
                if let Some(listing) = self.listing.get_mut(namespace) {
                    listing.insert(name.clone());
                }
                let before = there.insert(name.clone(), claim.clone());
                if before == Some(claim) { none } else { these(name) }
            }
            WatchEvent::Left((name, _)) => {
                there.remove(&name);
                these(name)
            }
            WatchEvent::Synced => {
                let seen = self.listing.remove(namespace).unwrap_or_default();
                let gone = there.extract_if(|name, _| !seen.contains(name)).map(|(name, _)| name);
                let gone: BTreeSet<String> = gone.collect();
                let is_first = self.listed.insert(namespace.to_owned());
                if is_first { Concerned::All } else { Concerned::These(gone) }
            }
        }
    }

    /// When a claim is tried again, not before that moment: one after the other.
    pub fn turn(&mut self, earliest: Instant) -> Instant {
        let at = self.next_turn.map_or(earliest, |next| next.max(earliest));
        self.next_turn = Some(at + TURN);
        at
    }
}

#[cfg(test)]
mod tests {
    use flashjob_plan::edge::storage::ClaimOwner;

    use super::*;

    fn claim(phase: &str) -> ClaimFacts {
        let phase = Some(phase.to_owned());
        ClaimFacts { owner: ClaimOwner::Nobody, phase, being_deleted: false }
    }

    fn there(name: &str, phase: &str) -> WatchEvent<(String, ClaimFacts)> {
        WatchEvent::There((name.into(), claim(phase)))
    }

    fn these(names: &[&str]) -> Concerned {
        Concerned::These(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn phase(claims: &Claims, name: &str) -> Option<String> {
        match claims.of(&("a".into(), name.into())) {
            Known::Listed(found) => found.and_then(|found| found.phase.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_known_before_the_list_is_complete() {
        let (mut claims, place) = (Claims::default(), ("a".to_owned(), "x".to_owned()));
        assert!(matches!(claims.of(&place), Known::Nothing));
        claims.has_kind(true);
        claims.take("a", WatchEvent::Listing);
        claims.take("a", there("x", "Bound"));
        assert!(matches!(claims.of(&place), Known::Nothing));
        assert!(!claims.are_known(&["a".into()]));
        assert_eq!(claims.take("a", WatchEvent::Synced), Concerned::All);
        assert!(claims.are_known(&["a".into()]) && !claims.are_known(&["a".into(), "b".into()]));
        assert_eq!(phase(&claims, "x").as_deref(), Some("Bound"));

        // Listed again, without one of them.
        claims.take("a", there("y", "Bound"));
        claims.take("a", WatchEvent::Listing);
        assert_eq!(claims.take("a", there("x", "Bound")), these(&[]));
        assert_eq!(claims.take("a", WatchEvent::Synced), these(&["y"]));
        assert_eq!(phase(&claims, "y"), None);
    }

    #[test]
    fn a_kind_that_goes_takes_its_claims_along() {
        let mut claims = Claims::default();
        claims.has_kind(true);
        claims.take("a", there("x", "Bound"));
        claims.take("a", WatchEvent::Synced);
        claims.has_kind(false);
        assert!(claims.are_known(&["a".into()]));
        assert_eq!(claims.take("a", there("x", "Bound")), these(&[]), "a watch that was ended");
        assert!(matches!(claims.of(&("a".into(), "x".into())), Known::NoKind));
        claims.has_kind(true);
        assert!(matches!(claims.of(&("a".into(), "x".into())), Known::Nothing));
    }

    #[test]
    fn an_answer_that_comes_late_undoes_nothing() {
        let (mut claims, place) = (Claims::default(), ("a".to_owned(), "x".to_owned()));
        claims.has_kind(true);
        claims.take("a", WatchEvent::Listing);
        claims.take("a", WatchEvent::Synced);
        claims.take("a", there("x", "Bound"));
        claims.made(&place, claim("new"));
        assert_eq!(phase(&claims, "x").as_deref(), Some("Bound"));
        // One that was made while a list was under way is not missing in it.
        claims.take("a", WatchEvent::Listing);
        claims.made(&("a".into(), "y".into()), claim("new"));
        assert_eq!(claims.take("a", WatchEvent::Synced), these(&["x"]));
        assert_eq!(phase(&claims, "y").as_deref(), Some("new"));
    }

    #[test]
    fn those_that_are_tried_again_take_turns() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        let turns: Vec<_> = (0..3).map(|_| claims.turn(now)).collect();
        assert_eq!(turns, [now, now + TURN, now + 2 * TURN]);
        let later = now + 100 * TURN;
        assert_eq!(claims.turn(later), later);
    }
}
