//! Which Instance a device is now, and whether this job may flash the board there.

use flashjob_api::flashjob::instance::same_board;
use flashjob_api::flashjob::{DeviceState, Reason};
use jiff::Timestamp;

use crate::flashjob::end::End;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::facts::View;
use crate::flashjob::instances::{Found, Instance, Instances};
use crate::flashjob::ledger::{Pinned, Record};
use crate::flashjob::round::Round;
use crate::flashjob::selector::Selector;
use crate::flashjob::spec::Spec;
use crate::flashjob::step::{Step, Wait};
use crate::time::after;

/// Why there is no Instance to go on with.
pub(crate) enum Missing {
    Unknown,
    NotListed,
    Offline,
    NoEndpoint,
    Several(String),
}

impl<'a> Round<'a> {
    /// The board guard: firmware for one type of board never reaches another, nor a board that the job may not use. What a
    /// selector says of the type counts for those it has chosen.
    pub(crate) fn wrong_board(
        &self,
        spec: &Spec,
        record: &Record,
        instance: &Instance,
    ) -> Option<End> {
        let wrong = |message: String| Some(End::failed(Reason::WrongDevice, message));
        let selected = spec.selector.as_ref().filter(|_| record.selected);
        for wanted in spec.device.iter().chain(selected.and_then(Selector::device)) {
            if !same_board(wanted, &instance.device) {
                let unknown = instance.device.is_empty();
                let what = if unknown { "a board of unknown type" } else { &instance.device };
                return wrong(format!("the firmware is for {wanted}, this device is {what}"));
            }
        }
        // An address in the spec must not lead around the bounds of namespaces.
        let endpoint = spec.host_endpoint.as_ref()?;
        if self.may_use(&self.view.job.namespace, endpoint) {
            return None;
        }
        wrong(format!(
            "spec.hostEndpoint {endpoint} is a board of a namespace this job may not use"
        ))
    }

    /// Whether jobs of a namespace may use the board at an address: Akri shows it where they may find devices, or nowhere.
    pub(crate) fn may_use(&self, namespace: &str, endpoint: &Endpoint) -> bool {
        let Some(instances) = self.view.instances.filter(|all| !all.listing) else {
            // The next one to be listed may say so.
            return true;
        };
        let mut shown_in = instances.namespaces_at(endpoint).peekable();
        let reach = &self.view.settings.device_namespaces;
        shown_in.peek().is_none() || shown_in.any(|shown| reach.allows(namespace, shown))
    }

    /// Finds the device's Instance, or says what is missing.
    pub(crate) fn find(&self, record: &Record) -> Result<&'a Instance, Missing> {
        let Some(instances) = self.view.instances else { return Err(Missing::Unknown) };
        let (own, reach) = (&self.view.job.namespace, &self.view.settings.device_namespaces);
        // Whose board an address in the spec is may be the next thing to be listed.
        let anywhere = self.spec.is_some_and(|spec| spec.host_endpoint.is_some());
        let instance = match &record.pinned {
            _ if instances.listing && anywhere => return Err(Missing::NotListed),
            // What a ledger says leads no further than what a spec says.
            Some(pinned) => instances
                .find_again(&pinned.namespace, &pinned.name, &pinned.endpoint)
                .filter(|instance| reach.allows(own, &instance.namespace))
                .ok_or(if instances.listing { Missing::NotListed } else { Missing::Offline })?,
            None if instances.listing => return Err(Missing::NotListed),
            None => look_up(self.view, instances, &record.device)?,
        };
        if instance.endpoint.is_empty() {
            return Err(Missing::NoEndpoint);
        }
        Ok(instance)
    }

    /// The device is waited for, up to a limit.
    pub(crate) fn missing(&self, index: usize, record: &Record, missing: Missing) -> Step {
        let why = match missing {
            Missing::Several(paths) => {
                let message = format!("{} fits {paths}; write namespace/name", record.device);
                let end = End::failed(Reason::AmbiguousDevice, message);
                return self.end(index, record, None, end);
            }
            Missing::Unknown => {
                let why = "Akri's Instances cannot be read yet";
                return Wait::new(DeviceState::Offline, why).into();
            }
            Missing::NotListed => {
                return Wait::new(DeviceState::Pending, "Akri's Instances are being listed").into();
            }
            Missing::Offline => "no Akri Instance for this device now",
            Missing::NoEndpoint => "its Akri Instance has no HOST_ENDPOINT",
        };
        let limit = self.spec.map_or(300, |s| s.offline_seconds);
        let since = self.missing_since(record);
        let give_up_at = after(since, limit);
        if self.now >= give_up_at {
            let message = format!("{why}, and none for {limit} s");
            return self.end(index, record, None, End::failed(Reason::DeviceNotFound, message));
        }
        Wait::new(DeviceState::Offline, why).since(since).until(give_up_at).into()
    }

    /// A device is missed from its turn on, and one that was there since from the moment it was lost: a board that restarts
    /// late in a long rollout is not one that was away all the time.
    fn missing_since(&self, record: &Record) -> Timestamp {
        let lost = self.view.instances.zip(record.pinned.as_ref());
        let lost = lost.and_then(|(all, pinned)| all.away_since(&pinned.namespace, &pinned.name));
        lost.map_or(self.turn_of(record), |lost| lost.max(self.turn_of(record)))
    }
}

/// Finds what a user wrote, for a device that was not found before.
pub(crate) fn look_up<'a>(
    view: &View<'_>,
    instances: &'a Instances,
    written: &str,
) -> Result<&'a Instance, Missing> {
    let own = &view.job.namespace;
    let reachable = |n: &str| view.settings.device_namespaces.allows(own, n);
    match instances.find(written, own, reachable) {
        Found::One(instance) if instance.deleting => Err(Missing::Offline),
        Found::One(instance) => Ok(instance),
        Found::Nothing => Err(Missing::Offline),
        Found::Several(paths) => Err(Missing::Several(paths.join(", "))),
    }
}

/// What a device is from now on: this Instance, at the address that will be flashed.
pub(crate) fn pin(spec: &Spec, instance: &Instance) -> Pinned {
    Pinned {
        namespace: instance.namespace.clone(),
        name: instance.name.clone(),
        endpoint: spec.host_endpoint.clone().unwrap_or_else(|| instance.endpoint.clone()),
    }
}

/// Whether that is what [`pin`] would say, without a copy for every device that waits.
pub(crate) fn is_pinned(pinned: &Pinned, spec: &Spec, instance: &Instance) -> bool {
    pinned.namespace == instance.namespace
        && pinned.name == instance.name
        && &pinned.endpoint == spec.host_endpoint.as_ref().unwrap_or(&instance.endpoint)
}
