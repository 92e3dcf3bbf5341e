//! The spec as decisions use it: trimmed, defaulted, checked.
//!
//! What the CRD's schema and rules guard is guarded here again, since older API servers drop the rules, and the result
//! of a bad spec is a sentence with the path of the field, never a half-understood job.

use std::collections::HashSet;

use flashjob_api::flashjob::{FlashJobSpec, Verify, VersionPolicy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::flashjob::access::Access;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::facts::Settings;
use crate::flashjob::names;
use crate::flashjob::selector::Selector;
use crate::flashjob::template::Template;

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
    pub host_endpoint: Option<Endpoint>,
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

/// The longest entry that can name a device: a namespace, a slash and a name.
const LONGEST_DEVICE: usize = 63 + 1 + 253;

/// At most this many flash Pods at once, whatever the spec says.
const MOST_PARALLEL: usize = 500;

impl Spec {
    /// Reads the `spec` of a FlashJob as the API server gave it.
    pub fn read(spec: &Value, settings: &Settings) -> Result<Spec, Invalid> {
        let spec: FlashJobSpec =
            serde_json::from_value(spec.clone()).map_err(|error| unreadable(spec, &error))?;
        let selector = spec.device_selector.as_ref().map(Selector::read).transpose()?;
        let devices = devices(spec.uuid.unwrap_or_default())?;
        if devices.is_empty() && selector.is_none() {
            return Err(Invalid(
                "spec.uuid names no device, and there is no deviceSelector".into(),
            ));
        }
        let firmware = one_word("spec.firmware", required("spec.firmware", &spec.firmware)?)?;
        let version = printable("spec.version", required("spec.version", &spec.version)?)?;
        let one_device = devices.len() == 1 && selector.is_none();
        let word = |path: &str, text: &Option<String>| {
            trimmed(text.as_deref()).map(|text| one_word(path, text)).transpose()
        };
        let name = |path: &str, text: &Option<String>| {
            trimmed(text.as_deref()).map(|text| printable(path, text)).transpose()
        };
        let overrides = [
            ("spec.hostEndpoint", word("spec.hostEndpoint", &spec.host_endpoint)?),
            ("spec.externalIP", word("spec.externalIP", &spec.external_ip)?),
        ];
        let given = overrides.iter().filter(|(_, value)| value.is_some() && !one_device);
        let ignored = given.map(|(field, _)| *field).collect();
        let [host_endpoint, external_ip] = overrides.map(|(_, value)| value.filter(|_| one_device));
        let options = spec.service.unwrap_or_default();
        let access = Access::read(options, external_ip.as_ref(), settings)?;
        let image = word("spec.flashjobPodImage", &spec.flashjob_pod_image)?;
        let own_image = image.is_none();
        let image =
            image.or_else(|| trimmed(settings.flashjob_image.as_deref())).ok_or_else(|| {
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
            device: name("spec.device", &spec.device)?,
            application_type: name("spec.applicationType", &spec.application_type)?,
            host_endpoint: host_endpoint.map(Endpoint::from),
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
        let entry = one_word(&format!("spec.uuid[{index}]"), entry.to_owned())?;
        if entry.len() > LONGEST_DEVICE {
            let length = entry.len();
            let says =
                format!("spec.uuid[{index}] is {length} bytes long; no Instance has such a name");
            return Err(Invalid(says));
        }
        if seen.insert(entry.clone()) {
            devices.push(entry);
        }
    }
    if devices.len() > flashjob_api::flashjob::crd::MAX_UUIDS {
        let most = flashjob_api::flashjob::crd::MAX_UUIDS;
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

/// Images, addresses and names of objects have no blanks in them. One that got there by a slip would be found out by the
/// kubelet or the board, ten minutes and one Service later.
fn one_word(path: &str, text: String) -> Result<String, Invalid> {
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Invalid(format!(
            "{path} is {text:?}; it may have no blanks or control characters in it"
        )));
    }
    Ok(text)
}

/// What people and boards call things may have blanks; a control character is a slip.
fn printable(path: &str, text: String) -> Result<String, Invalid> {
    if text.contains(char::is_control) {
        return Err(Invalid(format!(
            "{path} is {text:?}; it may have no control characters in it"
        )));
    }
    Ok(text)
}

/// Serde says what is wrong and not where, so each field is read by itself until one does not fit.
fn unreadable(spec: &Value, error: &serde_json::Error) -> Invalid {
    let reads = |field: Value| {
        let mut spec = json!({ "firmware": "", "version": "" });
        if let (Some(spec), Value::Object(field)) = (spec.as_object_mut(), field) {
            spec.extend(field);
        }
        FlashJobSpec::deserialize(spec).is_ok()
    };
    let parts = |of: &Value| of.as_object().cloned().unwrap_or_default();
    for (key, field) in parts(spec) {
        if reads(json!({ &key: field })) {
            continue;
        }
        let inner = parts(&field).into_iter().find(|(k, v)| !reads(json!({ &key: { k: v } })));
        let inner = inner.map(|(k, _)| format!(".{k}")).unwrap_or_default();
        return Invalid(format!("spec.{key}{inner} cannot be read: {error}"));
    }
    Invalid(format!("spec cannot be read: {error}"))
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
mod tests;
