//! The spec as decisions use it: trimmed, defaulted, checked.
//!
//! What the CRD's schema and rules guard is guarded here again, since older API servers drop the rules, and the result
//! of a bad spec is a sentence with the path of the field, never a half-understood job.

use std::collections::HashSet;

use flashjob_api::{FlashJobSpec, Verify, VersionPolicy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::access::Access;
use crate::facts::Settings;
use crate::names;
use crate::selector::Selector;
use crate::template::Template;

/// What is wrong with a spec: the path of the field and a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid(pub String);

/// A spec that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The devices as written, each once, in order.
    pub devices: Vec<String>,
    /// Devices by what they are.
    pub selector: Option<Selector>,
    /// The firmware image.
    pub firmware: String,
    /// The version the device reports afterwards.
    pub version: String,
    /// Firmware and version in one word.
    pub revision: String,
    /// The board the firmware is for, if the user said so.
    pub device: Option<String>,
    /// The application, for devices that do not say.
    pub application_type: Option<String>,
    /// The board's address, instead of the discovered one.
    pub host_endpoint: Option<String>,
    /// The address the board dials, instead of the Service's.
    pub external_ip: Option<String>,
    /// The flash image.
    pub image: String,
    /// Whether the image is the operator's own choice and so known to run as non-root.
    pub own_image: bool,
    /// How many flash Pods at once.
    pub max_parallel: usize,
    /// How many devices per batch; all at once if unset.
    pub batch_size: Option<Amount>,
    /// The pause after a batch.
    pub delay_seconds: i64,
    /// How many devices may fail before nothing new is started; no limit if unset.
    pub max_failures: Option<Amount>,
    /// How often a failed device is tried again.
    pub retry_limit: u32,
    /// The first pause before a retry.
    pub backoff_seconds: i64,
    /// A new value gives failed devices fresh attempts.
    pub nonce: Option<String>,
    /// How long one attempt may take.
    pub device_seconds: i64,
    /// How long to wait for an address.
    pub address_seconds: i64,
    /// How long a device may be missing.
    pub offline_seconds: i64,
    /// What counts as done.
    pub verify: Verify,
    /// Which devices are flashed.
    pub version_policy: VersionPolicy,
    /// How a board reaches its flash Pod.
    pub access: Access,
    /// What the job adds to its flash Pods.
    pub template: Template,
    /// Start nothing new.
    pub suspend: bool,
    /// Start nothing new, and end the job.
    pub abort: bool,
    /// Delete the finished job after this long.
    pub ttl_seconds: Option<i64>,
    /// Fields that have no meaning for this job.
    pub ignored: Vec<&'static str>,
}

/// A number of devices, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Number(usize),
    /// So many of a hundred.
    Percent(usize),
}

impl Amount {
    /// Of `total` devices, rounded up.
    pub fn round_up(self, total: usize) -> usize {
        match self {
            Amount::Number(n) => n,
            Amount::Percent(p) => (total * p).div_ceil(100),
        }
    }

    /// Of `total` devices, rounded down.
    pub fn round_down(self, total: usize) -> usize {
        match self {
            Amount::Number(n) => n,
            Amount::Percent(p) => total * p / 100,
        }
    }

    fn read(path: &str, given: Option<IntOrString>, least: i32) -> Result<Option<Amount>, Invalid> {
        let text = match given {
            None => return Ok(None),
            Some(IntOrString::Int(n)) => {
                let fits = usize::try_from(n).ok().filter(|_| n >= least);
                let wrong = || {
                    Invalid(format!("{path} is {n}; it may be {least} or more, or a percentage"))
                };
                return fits.map(|n| Some(Amount::Number(n))).ok_or_else(wrong);
            }
            Some(IntOrString::String(text)) => text,
        };
        let percent = text.trim().strip_suffix('%').and_then(|p| p.parse::<usize>().ok());
        let fits = percent.filter(|p| *p <= 100 && i32::try_from(*p).is_ok_and(|p| p >= least));
        let wrong = || {
            Invalid(format!("{path} is {text:?}; write a number, or a percentage up to \"100%\""))
        };
        fits.map(|p| Some(Amount::Percent(p))).ok_or_else(wrong)
    }
}

/// At most this many flash Pods at once, whatever the spec says.
const MOST_PARALLEL: usize = 500;

impl Spec {
    /// Reads the `spec` of a FlashJob as the API server gave it.
    pub fn read(spec: &Value, settings: &Settings) -> Result<Spec, Invalid> {
        let spec: FlashJobSpec = serde_json::from_value(spec.clone())
            .map_err(|error| Invalid(format!("spec cannot be read: {error}")))?;
        let selector = spec.device_selector.as_ref().map(Selector::read).transpose()?;
        let devices = devices(spec.uuid.unwrap_or_default())?;
        if devices.is_empty() && selector.is_none() {
            return Err(Invalid(
                "spec.uuid names no device, and there is no deviceSelector".into(),
            ));
        }
        let firmware = required("spec.firmware", &spec.firmware)?;
        let version = required("spec.version", &spec.version)?;
        let one_device = devices.len() == 1 && selector.is_none();
        let overrides = [
            ("spec.hostEndpoint", trimmed(spec.host_endpoint.as_deref())),
            ("spec.externalIP", trimmed(spec.external_ip.as_deref())),
        ];
        let given = overrides.iter().filter(|(_, value)| value.is_some() && !one_device);
        let ignored = given.map(|(field, _)| *field).collect();
        let [host_endpoint, external_ip] = overrides.map(|(_, value)| value.filter(|_| one_device));
        let options = spec.service.unwrap_or_default();
        let access = Access::read(options, external_ip.as_ref(), settings)?;
        let own_image = trimmed(spec.flashjob_pod_image.as_deref()).is_none();
        let image = trimmed(spec.flashjob_pod_image.as_deref())
            .or_else(|| trimmed(settings.flashjob_image.as_deref()))
            .ok_or_else(|| {
                Invalid(
                    "spec.flashjobPodImage is empty and the operator has no default: set it, or \
                     start the operator with --flashjob-image"
                        .into(),
                )
            })?;
        let template = match &spec.pod_template {
            Some(template) => Template::read(template, settings.unsafe_pod_templates)?,
            None => Template::default(),
        };
        let rollout = spec.rollout.unwrap_or_default();
        let retry = spec.retry.unwrap_or_default();
        let timeouts = spec.timeouts.unwrap_or_default();

        let max_parallel =
            match number("spec.rollout.maxParallel", rollout.max_parallel, 25, 0..=500)? {
                0 => MOST_PARALLEL,
                n => n as usize,
            };
        let backoff = number("spec.retry.backoffSeconds", retry.backoff_seconds, 10, 0..=300)?;
        let (a_day, thirty_days) = (86_400, 2_592_000);
        Ok(Spec {
            revision: names::revision(&firmware, &version),
            devices,
            selector,
            firmware,
            version,
            device: trimmed(spec.device.as_deref()),
            application_type: trimmed(spec.application_type.as_deref()),
            host_endpoint,
            external_ip,
            image,
            own_image,
            max_parallel: max_parallel.min(settings.max_parallel.unwrap_or(MOST_PARALLEL)),
            batch_size: Amount::read("spec.rollout.batchSize", rollout.batch_size, 1)?,
            delay_seconds: number(
                "spec.rollout.delaySeconds",
                rollout.delay_seconds,
                0,
                0..=thirty_days,
            )?,
            max_failures: Amount::read("spec.rollout.maxFailures", rollout.max_failures, 0)?,
            nonce: trimmed(retry.nonce.as_deref()),
            retry_limit: number("spec.retry.limit", retry.limit, 2, 0..=100)? as u32,
            backoff_seconds: backoff,
            device_seconds: number(
                "spec.timeouts.deviceSeconds",
                timeouts.device_seconds,
                600,
                1..=a_day,
            )?,
            address_seconds: number(
                "spec.timeouts.addressSeconds",
                timeouts.address_seconds,
                120,
                1..=a_day,
            )?,
            offline_seconds: number(
                "spec.timeouts.offlineSeconds",
                timeouts.offline_seconds,
                300,
                0..=thirty_days,
            )?,
            verify: spec.verify.unwrap_or_default(),
            version_policy: spec.version_policy.unwrap_or_default(),
            access,
            template,
            suspend: spec.suspend.unwrap_or_default(),
            abort: spec.abort.unwrap_or_default(),
            ttl_seconds: match spec.ttl_seconds_after_finished {
                None => None,
                given => {
                    let most = i64::from(i32::MAX);
                    Some(number("spec.ttlSecondsAfterFinished", given, 0, 0..=most)?)
                }
            },
            ignored,
        })
    }
}

fn devices(written: Vec<String>) -> Result<Vec<String>, Invalid> {
    let mut seen = HashSet::new();
    let mut devices = Vec::with_capacity(written.len());
    for (index, entry) in written.iter().enumerate() {
        let entry = entry.trim();
        if entry.is_empty() {
            return Err(Invalid(format!("spec.uuid[{index}] is empty")));
        }
        if seen.insert(entry.to_owned()) {
            devices.push(entry.to_owned());
        }
    }
    if devices.len() > flashjob_api::crd::MAX_UUIDS {
        let most = flashjob_api::crd::MAX_UUIDS;
        return Err(Invalid(format!(
            "spec.uuid has {} entries; {most} is the most",
            devices.len()
        )));
    }
    Ok(devices)
}

pub(crate) fn trimmed(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
}

fn required(path: &str, text: &str) -> Result<String, Invalid> {
    trimmed(Some(text)).ok_or_else(|| Invalid(format!("{path} is empty")))
}

fn number(
    path: &str,
    given: Option<i32>,
    default: i64,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, Invalid> {
    let value = given.map_or(default, i64::from);
    if range.contains(&value) {
        Ok(value)
    } else {
        let (low, high) = (range.start(), range.end());
        Err(Invalid(format!("{path} is {value}; it may be from {low} to {high}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(mut more: Value) -> Result<Spec, Invalid> {
        let mut spec = json!({
            "uuid": ["a"], "firmware": "f", "version": "v", "flashjobPodImage": "i",
        });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object_mut()) {
            spec.append(more);
        }
        Spec::read(&spec, &Settings::default())
    }

    fn refusal(more: Value) -> String {
        match read(more.clone()) {
            Err(Invalid(message)) => message,
            Ok(_) => panic!("{more} was accepted"),
        }
    }

    #[test]
    fn strings_are_trimmed_and_devices_counted_once() {
        let spec = read(json!({ "uuid": [" a ", "b", "a"], "firmware": " f:1 " })).unwrap();
        assert_eq!(spec.devices, ["a", "b"]);
        assert_eq!(spec.firmware, "f:1");
        assert_eq!(spec.max_parallel, 25);
    }

    #[test]
    fn nulls_are_as_good_as_nothing() {
        let nulls = json!({ "device": null, "rollout": null, "retry": { "limit": null } });
        assert_eq!(read(nulls), read(json!({})));
    }

    #[test]
    fn amounts_are_numbers_or_percentages_of_all_devices() {
        let spec =
            read(json!({ "rollout": { "batchSize": "10%", "maxFailures": "10%" } })).unwrap();
        assert_eq!(spec.batch_size.map(|b| b.round_up(25)), Some(3));
        assert_eq!(spec.max_failures.map(|m| m.round_down(25)), Some(2));
        let spec = read(json!({ "rollout": { "batchSize": 4, "maxFailures": 0 } })).unwrap();
        assert_eq!(spec.batch_size, Some(Amount::Number(4)));
        assert_eq!(spec.max_failures, Some(Amount::Number(0)));
    }

    #[test]
    fn overrides_are_for_jobs_with_one_device() {
        let one = read(json!({ "hostEndpoint": "10.0.0.1" })).unwrap();
        assert_eq!(one.host_endpoint.as_deref(), Some("10.0.0.1"));
        let two = read(json!({ "uuid": ["a", "b"], "hostEndpoint": "10.0.0.1" })).unwrap();
        assert_eq!((two.host_endpoint, two.ignored), (None, vec!["spec.hostEndpoint"]));
    }

    #[test]
    fn a_bad_spec_is_named_by_its_path() {
        assert!(refusal(json!({ "uuid": [] })).starts_with("spec.uuid names no device"));
        assert_eq!(refusal(json!({ "uuid": ["a", " "] })), "spec.uuid[1] is empty");
        assert_eq!(refusal(json!({ "firmware": "  " })), "spec.firmware is empty");
        assert!(refusal(json!({ "flashjobPodImage": null })).contains("--flashjob-image"));
        assert!(refusal(json!({ "retry": { "limit": -1 } })).contains("from 0 to 100"));
        assert!(refusal(json!({ "firmware": 7 })).starts_with("spec cannot be read"));
        assert!(refusal(json!({ "deviceSelector": {} })).contains("spec.deviceSelector"));
        assert!(refusal(json!({ "rollout": { "batchSize": 0 } })).contains("1 or more"));
        assert!(refusal(json!({ "rollout": { "maxFailures": "120%" } })).contains("100%"));
        assert!(refusal(json!({ "rollout": { "maxFailures": "some" } })).contains("some"));
    }
}
