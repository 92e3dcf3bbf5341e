//! What it means that a workload is in no list: somebody has deleted it, and then devices are to run it no longer; or its CRD was
//! deleted and all of its kind with it, and then nobody has said so.
//!
//! Of a workload that this process has seen it is asked when it leaves: its age and that of the CRD tell. Of what went before
//! this process began only the labels of devices tell that it was there. So the CRD that all of them were accounted for with is
//! on record. While there is another one, or none, what devices are labelled with and no list has may come back, until the CRD
//! has been there for five minutes.

use std::collections::{BTreeMap, BTreeSet};

use flashjob_api::edge::EdgeReason;
use jiff::{SignedDuration, Timestamp};

use super::facts::WorkloadKind;
use crate::edge::problem::Problem;
use crate::time::after;

/// The ConfigMap with the record: the uid of the CRD, by the plural of the kind.
pub const CONFIG_MAP: &str = "edge-crds";

/// After a CRD was deleted and is there again, its objects may be missing for so many seconds before that means anything.
const YOUNG: i64 = 300;
/// From one look at a CRD that is gone, or about to go, to the next.
const LOOK_AGAIN: i64 = 5;

/// A CRD, as far as that depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFacts {
    pub uid: String,
    pub made: Timestamp,
    pub being_deleted: bool,
}

impl CrdFacts {
    fn is_young(&self, now: Timestamp) -> bool {
        now.duration_since(self.made) < SignedDuration::from_secs(YOUNG)
    }
}

/// Whether a workload that was made then, and is gone, may have gone with its CRD: that is about to go, gone, or back for a short
/// while and newer than the workload.
pub fn went_with_its_crd(crd: Option<&CrdFacts>, made: Timestamp, now: Timestamp) -> bool {
    let Some(crd) = crd.filter(|crd| !crd.being_deleted) else { return true };
    crd.made > made && crd.is_young(now)
}

/// What is known of workloads that devices are labelled with and that are in no list.
#[derive(Debug, Default)]
pub struct Absent {
    /// How the CRDs were, once the lists of their objects were complete.
    crds: BTreeMap<WorkloadKind, Look>,
    /// The CRDs that all labels were accounted for with.
    accounted: BTreeMap<WorkloadKind, String>,
    /// What the record says of that.
    recorded: BTreeMap<WorkloadKind, String>,
    /// By namespace and name, those that are known to have been deleted meanwhile.
    deleted: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Look {
    crd: Option<CrdFacts>,
    /// When there may be something else to see. `None`: there is such a CRD, and it is no longer young.
    again: Option<Timestamp>,
}

impl Absent {
    /// The record, as an earlier process has left it.
    pub fn remember(&mut self, record: &BTreeMap<String, String>) {
        self.recorded(record);
        self.accounted = self.recorded.clone();
    }

    /// The record, as it is. What is no kind of ours is left out.
    pub fn recorded(&mut self, record: &BTreeMap<String, String>) {
        let of = |kind: WorkloadKind| Some((kind, record.get(kind.plural())?.clone()));
        self.recorded = WorkloadKind::ALL.into_iter().filter_map(of).collect();
    }

    /// How a CRD was after a list of its objects was complete.
    pub fn look(&mut self, kind: WorkloadKind, crd: Option<CrdFacts>, now: Timestamp) {
        let again = match &crd {
            Some(crd) if crd.being_deleted => Some(after(now, LOOK_AGAIN)),
            Some(crd) => crd.is_young(now).then(|| after(crd.made, YOUNG)),
            None => Some(after(now, LOOK_AGAIN)),
        };
        self.crds.insert(kind, Look { crd, again });
    }

    /// The CRDs that have to be looked at again by now. Until that has happened they are not named once more.
    pub fn due(&mut self, now: Timestamp) -> Vec<WorkloadKind> {
        let awaited = WorkloadKind::ALL.into_iter().filter(|kind| self.awaits(*kind));
        let is_due = |kind: &WorkloadKind| {
            let look = self.crds.get(kind);
            look.and_then(|look| look.again).is_some_and(|again| again <= now)
        };
        let due: Vec<_> = awaited.filter(is_due).collect();
        for kind in &due {
            if let Some(look) = self.crds.get_mut(kind) {
                look.again = Some(after(now, LOOK_AGAIN));
            }
        }
        due
    }

    /// Somebody has deleted this workload, without its CRD.
    pub fn delete(&mut self, namespace: &str, name: &str) {
        if self.awaits_any() {
            self.deleted.insert((namespace.to_owned(), name.to_owned()));
        }
    }

    /// Whether what is in no list may come back, for all that is known.
    pub fn awaits_any(&self) -> bool {
        WorkloadKind::ALL.into_iter().any(|kind| self.awaits(kind))
    }

    fn awaits(&self, kind: WorkloadKind) -> bool {
        let Some(Look { crd: Some(crd), again }) = self.crds.get(&kind) else { return true };
        let is_accounted = self.accounted.get(&kind) == Some(&crd.uid);
        crd.being_deleted || again.is_some() && !is_accounted
    }

    /// Why devices that are labelled with this workload keep it, although it is in no list. `None`: it was deleted.
    pub fn problem(&self, namespace: &str, name: &str) -> Option<Problem> {
        let kind = WorkloadKind::ALL.into_iter().find(|kind| self.awaits(*kind))?;
        if self.deleted.contains(&(namespace.to_owned(), name.to_owned())) {
            return None;
        }
        let crd = self.crds.get(&kind).and_then(|look| look.crd.as_ref());
        let crd = crd.filter(|crd| !crd.being_deleted);
        let said = crd.map_or_else(
            || format!("the CRD of {kind}s is gone or about to go"),
            |crd| format!("the CRD of {kind}s was made anew at {}", crd.made),
        );
        let message =
            format!("the workload is not there, but {said}, so nobody may have deleted it");
        Some(Problem::new(EdgeReason::WorkloadMissing, message))
    }

    /// Whether a workload of that age was there before the CRD as it was looked at last: it went with an earlier one.
    pub fn is_of_an_earlier_crd(&self, kind: WorkloadKind, made: Timestamp) -> bool {
        let crd = self.crds.get(&kind).and_then(|look| look.crd.as_ref());
        crd.is_some_and(|crd| crd.made > made)
    }

    /// All devices were looked at. `missing`: one of them is labelled with what may come back, or has what an earlier CRD had.
    pub fn account(&mut self, missing: bool) {
        for kind in WorkloadKind::ALL {
            let Some(Look { crd: Some(crd), again }) = self.crds.get(&kind) else { continue };
            if !crd.being_deleted && (!missing || again.is_none()) {
                self.accounted.insert(kind, crd.uid.clone());
            }
        }
        if !self.awaits_any() {
            self.deleted.clear();
        }
    }

    /// What is to be on record and is not.
    pub fn unrecorded(&self) -> Option<BTreeMap<String, String>> {
        let entry = |(kind, uid): (&WorkloadKind, &String)| (kind.plural().to_owned(), uid.clone());
        (self.accounted != self.recorded).then(|| self.accounted.iter().map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use WorkloadKind::{EdgeDeployment, EdgeWorkload};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn crd(uid: &str, made: i64) -> Option<CrdFacts> {
        Some(CrdFacts { uid: uid.into(), made: at(made), being_deleted: false })
    }

    fn going(uid: &str) -> Option<CrdFacts> {
        crd(uid, -9000).map(|crd| CrdFacts { being_deleted: true, ..crd })
    }

    /// A process that begins at 0, finds this CRD of EdgeDeployments, and an old one of EdgeWorkloads; by the record both are
    /// `old`.
    fn begins(deployments: Option<CrdFacts>) -> Absent {
        let mut absent = Absent::default();
        let record = [("edgedeployments", "old"), ("edgeworkloads", "old"), ("pods", "x")];
        let record = record.map(|(kind, uid)| (kind.to_owned(), uid.to_owned()));
        absent.remember(&record.into());
        absent.look(EdgeDeployment, deployments, at(0));
        absent.look(EdgeWorkload, crd("old", -9000), at(0));
        absent
    }

    fn is_held(absent: &Absent) -> bool {
        let problem = absent.problem("default", "web");
        problem.is_some_and(|problem| problem.reason == EdgeReason::WorkloadMissing)
    }

    #[test]
    fn what_leaves_may_have_gone_with_a_crd_that_is_gone_or_going_or_new() {
        let went =
            |crd: Option<CrdFacts>, second| went_with_its_crd(crd.as_ref(), at(0), at(second));
        assert!(went(None, 10) && went(going("a"), 10));
        assert!(went(crd("a", 5), 5 + YOUNG - 1));
        assert!(!went(crd("a", 5), 5 + YOUNG), "its objects had time to come back");
        assert!(!went(crd("a", -5), 10), "the workload was made after it");
        assert!(went(crd("a", 5), -400), "the clock went back");
    }

    #[test]
    fn after_a_restart_nobody_believes_the_empty_list_of_a_new_crd() {
        let mut absent = begins(crd("new", -10));
        assert!(is_held(&absent));
        absent.account(true);
        assert!(is_held(&absent) && absent.unrecorded().is_none());
        assert_eq!(absent.due(at(YOUNG - 11)), []);
        assert_eq!(absent.due(at(YOUNG - 10)), [EdgeDeployment]);
        assert_eq!(absent.due(at(YOUNG - 10)), [], "it is being looked at");
        assert!(is_held(&absent), "it may be another one by now");
        absent.look(EdgeDeployment, crd("new", -10), at(YOUNG - 10));
        assert!(!is_held(&absent));
        absent.account(true);
        assert_eq!(absent.unrecorded().unwrap()["edgedeployments"], "new");
    }

    #[test]
    fn a_crd_that_is_replaced_once_more_has_its_own_five_minutes() {
        let mut absent = begins(crd("new", -10));
        absent.look(EdgeDeployment, crd("newer", 250), at(YOUNG));
        assert!(is_held(&absent));
        assert_eq!((absent.due(at(549)), absent.due(at(550))), (vec![], vec![EdgeDeployment]));
    }

    #[test]
    fn with_the_crd_that_is_on_record_what_is_in_no_list_was_deleted() {
        for made in [-9000, -10] {
            let absent = begins(crd("old", made));
            assert!(!is_held(&absent) && absent.unrecorded().is_none());
        }
        assert!(!is_held(&begins(crd("new", -9000))), "nothing is on record of clusters of before");
    }

    #[test]
    fn a_crd_that_goes_after_the_list_holds_for_as_long_as_there_is_none() {
        for crd in [None, going("old")] {
            let mut absent = begins(crd);
            assert!(is_held(&absent));
            absent.account(false);
            assert!(is_held(&absent));
            for second in [LOOK_AGAIN, 2 * LOOK_AGAIN, 9000] {
                assert_eq!(absent.due(at(second)), [EdgeDeployment]);
                absent.look(EdgeDeployment, None, at(second));
                assert!(is_held(&absent));
            }
        }
    }

    #[test]
    fn before_anybody_has_looked_nothing_is_gone() {
        assert!(is_held(&Absent::default()));
        let mut absent = Absent::default();
        absent.look(EdgeWorkload, crd("a", -9000), at(0));
        assert!(is_held(&absent), "it may have been an EdgeDeployment");
    }

    #[test]
    fn where_nothing_is_missing_the_new_crd_is_on_record_at_once() {
        let mut absent = begins(crd("new", -10));
        absent.account(false);
        let record = absent.unrecorded().unwrap();
        assert_eq!(record["edgedeployments"], "new");
        absent.recorded(&record);
        assert!(!is_held(&absent) && absent.unrecorded().is_none());
    }

    #[test]
    fn what_is_older_than_its_crd_was_there_before_it() {
        let absent = begins(crd("new", -10));
        assert!(absent.is_of_an_earlier_crd(EdgeDeployment, at(-11)));
        assert!(!absent.is_of_an_earlier_crd(EdgeDeployment, at(-10)));
        assert!(!absent.is_of_an_earlier_crd(EdgeWorkload, at(-11)));
    }

    #[test]
    fn who_deletes_a_workload_that_has_come_back_is_believed() {
        let mut absent = begins(crd("new", -10));
        absent.delete("default", "web");
        assert!(!is_held(&absent));
        assert!(absent.problem("default", "db").is_some());
        assert!(absent.problem("other", "web").is_some());
    }
}
