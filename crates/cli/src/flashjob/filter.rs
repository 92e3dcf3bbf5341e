//! Which devices a user means.

use anyhow::Result;
use flashjob_api::flashjob::DeviceSelector;
use flashjob_plan::flashjob::instances::{Found, Instance, Instances};
use flashjob_plan::flashjob::selector::Selector;

use crate::exit::UsageError;
use crate::flashjob::args::Choice;

/// Devices by what they are and by name. Labels are the API server's business.
pub struct Filter {
    selector: Option<Selector>,
    /// The only namespace to look in, for devices that are not named.
    namespace: Option<String>,
    uuid: Vec<String>,
}

impl Filter {
    pub fn of(
        choice: &Choice,
        version: Option<&String>,
        namespace: Option<&String>,
    ) -> Result<Filter, UsageError> {
        let given = choice.device.is_some() || choice.app.is_some() || version.is_some();
        let wanted = DeviceSelector {
            device: choice.device.clone(),
            application_type: choice.app.clone(),
            version: version.cloned(),
            ..DeviceSelector::default()
        };
        let selector = given.then(|| Selector::read(&wanted)).transpose();
        // The operator speaks of the fields of a job; here they are flags.
        let flags = |text: &str| {
            text.replace("spec.deviceSelector.version", "--version")
                .replace("spec.deviceSelector", "the choice of devices")
        };
        let selector = selector.map_err(|invalid| UsageError(flags(&invalid.0)))?;
        let uuid = choice.uuid.iter().map(|u| u.trim().to_owned()).filter(|u| !u.is_empty());
        Ok(Filter { selector, namespace: namespace.cloned(), uuid: uuid.collect() })
    }

    /// Whether a device is what is wanted.
    pub fn fits(&self, instance: &Instance) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.fits(instance))
    }

    /// The devices that are wanted, in their order; and the names that fit none, or more than one, and why.
    pub fn choose<'a>(
        &self,
        all: &'a [Instance],
        own: &str,
    ) -> (Vec<&'a Instance>, Vec<(String, String)>) {
        let mut missing = Vec::new();
        if self.uuid.is_empty() {
            let here = |i: &&Instance| self.namespace.as_ref().is_none_or(|n| *n == i.namespace);
            return (all.iter().filter(here).filter(|i| self.fits(i)).collect(), missing);
        }
        let mut index = Instances::default();
        for instance in all {
            index.insert(instance.clone());
        }
        let mut wanted = std::collections::HashSet::new();
        for written in &self.uuid {
            match index.find(written, own, |_| true) {
                Found::One(instance) => {
                    wanted.insert((instance.namespace.clone(), instance.name.clone()));
                }
                Found::Nothing => missing.push((written.clone(), "there is no such device".into())),
                Found::Several(paths) => {
                    let why = format!("it fits {}; write namespace/name", paths.join(", "));
                    missing.push((written.clone(), why));
                }
            }
        }
        let is_wanted =
            |i: &&Instance| wanted.contains(&(i.namespace.clone(), i.name.clone())) && self.fits(i);
        (all.iter().filter(is_wanted).collect(), missing)
    }
}
