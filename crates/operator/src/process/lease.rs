//! One writer: the lease.
//!
//! A pure judge says from the lease object and what was seen of it so far whether to wait, take or renew; a thin loop
//! does it with resourceVersion, so that two cannot both win. The time that counts is our own, on a clock that runs
//! through suspend: another holder is gone when its lease has not changed for its duration *since we first saw it so*,
//! whatever the clocks of other machines say.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::process::client::{MARGIN, WriteWindow, error_message, in_time};
use crate::process::clock;

const DURATION: Duration = Duration::from_secs(15);
const RENEW_BY: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// What was last seen of a lease somebody else holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedLease {
    resource_version: Option<String>,
    since: Duration,
}

/// What to do about the lease.
#[derive(Debug, PartialEq)]
pub enum Judgement {
    /// There is none: make it.
    Create,
    /// It is ours, free, or its holder is gone: write our name on it.
    Take,
    /// Somebody else holds it.
    Wait(ObservedLease),
}

/// Says what to do about the lease.
pub fn judge(
    lease: Option<&Lease>,
    me: &str,
    seen: Option<&ObservedLease>,
    now: Duration,
) -> Judgement {
    let Some(lease) = lease else { return Judgement::Create };
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    if holder.is_empty() || holder == me {
        return Judgement::Take;
    }
    let resource_version = lease.metadata.resource_version.clone();
    let seen = match seen {
        Some(seen) if seen.resource_version == resource_version => seen.clone(),
        _ => ObservedLease { resource_version, since: now },
    };
    let duration = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
    let duration = duration.map_or(DURATION, Duration::from_secs);
    if now >= seen.since + duration { Judgement::Take } else { Judgement::Wait(seen) }
}

/// The lease as this process sees it.
pub struct Holder {
    api: Api<Lease>,
    name: String,
    me: String,
    window: WriteWindow,
    held: Option<Lease>,
}

impl Holder {
    /// A process that wants the lease `name` in `namespace`.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        me: &str,
        window: WriteWindow,
    ) -> Holder {
        let api = Api::namespaced(client, namespace);
        Holder { api, name: name.to_owned(), me: me.to_owned(), window, held: None }
    }

    /// Returns once the lease is ours.
    pub async fn win(&mut self) {
        let mut seen: Option<ObservedLease> = None;
        let mut said = String::new();
        loop {
            match self.try_win(&mut seen).await {
                Ok(None) => return,
                Ok(Some(holder)) if said != holder => {
                    tracing::info!(%holder, "standing by: another process holds the lease");
                    said = holder;
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(
                        error = error_message(&error),
                        "the lease could not be read or written"
                    )
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease until that has failed for too long. Only then it returns.
    pub async fn keep(&mut self) {
        let mut renewed = clock::boottime();
        loop {
            tokio::time::sleep(RETRY).await;
            let sent = clock::boottime();
            // Also after the process itself was stopped or the machine slept: what was decided before is too old.
            if sent >= renewed + RENEW_BY {
                return;
            }
            let Some(lease) = self.held.clone() else { return };
            match self.write(Some(lease)).await {
                Ok(()) => renewed = sent,
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    // Somebody touched it: ours only if our name is still on it.
                    match in_time(MARGIN, self.api.get(&self.name)).await {
                        Ok(lease) if holder(&lease) == self.me => self.held = Some(lease),
                        Ok(_) => return,
                        Err(error) => {
                            tracing::warn!(
                                error = error_message(&error),
                                "the lease could not be read"
                            )
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = error_message(&error), "the lease could not be renewed")
                }
            }
        }
    }

    /// Gives the lease back, so that the next process need not wait.
    pub async fn release(&mut self) {
        self.window.extend(Duration::ZERO);
        let Some(mut lease) = self.held.take() else { return };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        let written = self.api.replace(&self.name, &params, &lease);
        match in_time(Duration::from_secs(1), written).await {
            Ok(_) => tracing::info!("gave the lease back"),
            Err(error) => {
                tracing::warn!(error = error_message(&error), "the lease could not be given back")
            }
        }
    }

    /// One try: `None` when the lease is ours, else who holds it.
    async fn try_win(&mut self, seen: &mut Option<ObservedLease>) -> kube::Result<Option<String>> {
        let lease = in_time(MARGIN, self.api.get_opt(&self.name)).await?;
        let now = clock::boottime();
        match judge(lease.as_ref(), &self.me, seen.as_ref(), now) {
            Judgement::Wait(now_seen) => {
                *seen = Some(now_seen);
                Ok(Some(lease.as_ref().map(holder).unwrap_or_default()))
            }
            Judgement::Create | Judgement::Take => match self.write(lease).await {
                Ok(()) => Ok(None),
                Err(kube::Error::Api(status))
                    if status.is_conflict() || status.is_already_exists() =>
                {
                    Ok(Some("another process".into()))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Writes our name on the lease and widens the window from the moment the call was sent.
    async fn write(&mut self, old: Option<Lease>) -> kube::Result<()> {
        let before = old.as_ref().and_then(|l| l.spec.clone()).unwrap_or_default();
        let ours = before.holder_identity.as_deref() == Some(&self.me);
        let now = MicroTime(clock::now());
        let spec = LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: before.acquire_time.filter(|_| ours).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!ours)),
            ..LeaseSpec::default()
        };
        let sent = clock::boottime();
        let call = async {
            match old {
                Some(old) => {
                    let lease = Lease { spec: Some(spec), ..old };
                    self.api.replace(&self.name, &PostParams::default(), &lease).await
                }
                None => {
                    let name = Some(self.name.clone());
                    let metadata = ObjectMeta { name, ..ObjectMeta::default() };
                    let lease = Lease { metadata, spec: Some(spec) };
                    self.api.create(&PostParams::default(), &lease).await
                }
            }
        };
        self.held = Some(in_time(MARGIN, call).await?);
        self.window.extend(sent + DURATION);
        Ok(())
    }
}

fn holder(lease: &Lease) -> String {
    lease.spec.as_ref().and_then(|s| s.holder_identity.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                ..LeaseSpec::default()
            }),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_free_lease_is_taken() {
        assert_eq!(judge(None, "me", None, at(0)), Judgement::Create);
        assert_eq!(judge(Some(&held_by("", "1")), "me", None, at(0)), Judgement::Take);
        assert_eq!(judge(Some(&held_by("me", "1")), "me", None, at(0)), Judgement::Take);
    }

    #[test]
    fn another_holder_is_gone_when_nothing_moved_for_the_whole_duration() {
        let lease = held_by("you", "1");
        let Judgement::Wait(seen) = judge(Some(&lease), "me", None, at(100)) else { panic!() };
        assert!(matches!(judge(Some(&lease), "me", Some(&seen), at(114)), Judgement::Wait(_)));
        assert_eq!(judge(Some(&lease), "me", Some(&seen), at(115)), Judgement::Take);
        let renewed = held_by("you", "2");
        let Judgement::Wait(seen) = judge(Some(&renewed), "me", Some(&seen), at(115)) else {
            panic!()
        };
        assert!(matches!(judge(Some(&renewed), "me", Some(&seen), at(129)), Judgement::Wait(_)));
        assert_eq!(judge(Some(&renewed), "me", Some(&seen), at(130)), Judgement::Take);
    }
}
