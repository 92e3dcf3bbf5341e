//! The ObjectBucketClaims of devices: made where one is to be, one write for each device at a time, beside all other writes.

use flashjob_api::edge::{ObjectBucketClaim, Settings};
use flashjob_plan::edge::configuration::Needs;
use flashjob_plan::edge::facts::EdgeDeviceFacts;
use flashjob_plan::edge::problem::Problem;
use flashjob_plan::edge::storage::{
    self, Claim, ClaimFacts, ClaimOwner, Claimed, Known, Route, Wish, decide, not_made,
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::device::DeviceState;
use super::{EdgeController, Unlisted};
use crate::edge::claims::Concerned;
use crate::edge::input::Input;
use crate::edge::sources::{Owner, Source};
use crate::edge::tombstones::Place;
use crate::edge::{observe, slim};
use crate::engine::backoff::Backoff;
use crate::engine::fair_queue::Flow;
use crate::engine::watch::WatchEvent;
use crate::engine::write::{self, Created};
use crate::process::clock;

/// So long after the start nobody waits any longer to know of claims and of the Route: who provides buckets may be broken.
const WAIT_FOR_BUCKETS: SignedDuration = SignedDuration::from_secs(10);

/// What is kept of the claim of a device, and of the tries to make it.
#[derive(Default)]
pub struct ClaimState {
    pub is_there: bool,
    busy: bool,
    /// Not tried again before that.
    not_before: Option<Instant>,
    backoff: Backoff,
    /// Why the last try came to nothing.
    problem: Option<Problem>,
}

impl ClaimState {
    pub fn new(is_there: bool) -> Self {
        Self { is_there, ..Self::default() }
    }
}

impl EdgeController {
    /// What a device gets by its claim, and what has to be read for its settings. `is_sure`: nothing is wrong with those.
    pub(super) fn storage_of(
        &mut self,
        place: &Place,
        device: &EdgeDeviceFacts,
        settings: &Settings,
        is_sure: bool,
    ) -> (Claimed, Vec<Source>) {
        let (namespace, name) = place;
        let of = storage::Place { namespace, name, uid: &device.uid };
        let known = self.claims.of(place);
        let claim = decide(Wish::of(settings, self.storage.auto && is_sure), of, known);
        let nobody_knows = matches!(known, Known::Nothing);

        let mut needs = Needs::of_settings(settings);
        claim.needs(name, &mut needs);
        let owner = Owner::Device(namespace.clone(), name.clone());
        let read = self.sources.want(&owner, namespace, &needs);

        let state =
            self.states.entry(place.clone()).or_insert_with(|| DeviceState::new(device).into());
        if claim == Claim::Missing {
            self.make_claim(place, of);
        } else {
            let is_there = claim.is_there() || nobody_knows && state.claim.is_there;
            let busy = state.claim.busy;
            state.claim = ClaimState { busy, ..ClaimState::new(is_there) };
        }
        let tried = self.states.get(place).and_then(|state| state.claim.problem.as_ref());
        (claim.read(of, &self.storage.server, &self.sources, tried), read)
    }

    fn make_claim(&mut self, place: &Place, of: storage::Place<'_>) {
        let Some(state) = self.states.get_mut(place) else { return };
        state.claim.is_there = false;
        if state.claim.busy || !self.unlisted.is_empty() {
            return;
        }
        if let Some(at) = state.claim.not_before.filter(|at| *at > Instant::now()) {
            self.queue.enqueue_at(&place.1, at);
            return;
        }
        state.claim.busy = true;
        let claim = storage::object(of, &self.storage.class);
        let flow = Flow { namespace: place.0.clone(), key: format!("/claim/{}", place.1) };
        let caller = self.pool.caller(flow, state.claim.backoff.has_failed());
        let (place, uid, inputs) = (place.clone(), of.uid.to_owned(), self.inputs.clone());
        tokio::spawn(async move {
            let is_usable = |found: &ObjectMeta, _: &ObjectMeta| {
                let owners = found.owner_references.as_deref().unwrap_or_default();
                match ClaimOwner::read(&place.1, owners) {
                    ClaimOwner::Device(owner) => owner == uid,
                    owner => owner == ClaimOwner::Nobody,
                }
            };
            let made = write::create::<ObjectBucketClaim, slim::ObjectBucketClaim>(
                &caller, claim, is_usable,
            );
            let made = made.await.map(|claim| observe::claim(&claim).1);
            // Nobody listens any more when the process ends.
            let _ = inputs.send(Input::ClaimMade(place, made)).await;
        });
    }

    /// A claim was made, or was not.
    pub(super) fn claim_made(&mut self, place: &Place, made: Created<ClaimFacts>) {
        let (namespace, name) = place;
        let result = match &made {
            Created::There(_) => "made",
            Created::Not { definite: true, .. } => "refused",
            Created::Not { .. } => "failed",
        };
        self.shared.metrics.claim(result);
        let Some(state) = self.states.get_mut(place) else { return };
        state.claim.busy = false;
        let mut again = Instant::now();
        match made {
            Created::There(claim) => {
                state.claim.backoff.succeeded();
                state.claim.problem = None;
                self.claims.made(place, claim);
            }
            Created::Not { message, definite, .. } => {
                let of = storage::Place { namespace, name, uid: "" };
                let problem = not_made(of, &message, definite);
                if state.claim.problem.as_ref() != Some(&problem) {
                    tracing::warn!(device = name, namespace, "{}", problem.message);
                }
                state.claim.problem = Some(problem);
                again = self.claims.turn(state.claim.backoff.failed());
                state.claim.not_before = Some(again);
                // Its status says so meanwhile.
                self.queue.enqueue_at(name, Instant::now());
            }
        }
        self.queue.enqueue_at(name, again);
    }

    pub(super) fn has_claims(&mut self, there: bool) {
        tracing::info!(there, "whether the cluster has ObjectBucketClaims");
        self.claims.has_kind(there);
        for namespace in self.shared.settings.namespaces.clone() {
            self.claims_changed(&namespace, Concerned::All);
        }
    }

    pub(super) fn take_claim(&mut self, namespace: &str, event: WatchEvent<(String, ClaimFacts)>) {
        let concerned = self.claims.take(namespace, event);
        self.claims_changed(namespace, concerned);
    }

    fn claims_changed(&mut self, namespace: &str, concerned: Concerned) {
        if self.claims.are_known(&self.shared.settings.namespaces) {
            self.known(Unlisted::Claims);
        }
        let devices = self.shared.devices();
        let names: Vec<String> = match concerned {
            Concerned::All => {
                devices.of_namespace(namespace).map(|(name, _)| name.clone()).collect()
            }
            Concerned::These(names) => {
                let is_there = |name: &String| {
                    devices.entry(name).is_some_and(|entry| entry.device(namespace).is_some())
                };
                names.into_iter().filter(is_there).collect()
            }
        };
        drop(devices);
        names.iter().for_each(|name| self.queue.enqueue_at(name, Instant::now()));
    }

    /// The address of all claimed buckets may be another.
    pub(super) fn take_route(&mut self, route: Route) {
        tracing::info!(?route, "the Route to the server of buckets");
        self.storage.server.route = route;
        self.known(Unlisted::Route);
        for namespace in self.shared.settings.namespaces.clone() {
            self.claims_changed(&namespace, Concerned::All);
        }
    }

    /// What becomes of buckets is asked at the start for a while only.
    pub(super) fn wait_no_longer_for_buckets(&mut self) {
        if clock::now().duration_since(self.started) <= WAIT_FOR_BUCKETS {
            return;
        }
        for unlisted in [Unlisted::Claims, Unlisted::Route] {
            if self.unlisted.contains(&unlisted) {
                let what =
                    "it cannot be found out where claimed buckets are; devices are served without";
                tracing::warn!(?unlisted, "{what}");
                self.known(unlisted);
            }
        }
    }
}
