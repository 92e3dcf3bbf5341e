//! The spec as decisions use it: trimmed, defaulted, checked.
//!
//! What the CRD's schema and rules guard is guarded here again, since older API servers drop the rules, and the result
//! of a bad spec is a sentence with the path of the field, never a half-understood job.

use std::collections::HashSet;

use flashjob_api::flashjob::{DeviceSelector, FlashJobSpec, Timeouts, Verify, VersionPolicy};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::flashjob::access::Access;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::facts::Settings;
use crate::flashjob::names;
use crate::flashjob::selector::Selector;
use crate::flashjob::template::Template;

mod amount;
pub use amount::Amount;

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

/// The longest entry that can name a device: a namespace, a slash and a name.
const LONGEST_DEVICE: usize = 63 + 1 + 253;

/// At most this many flash Pods at once, whatever the spec says.
const MOST_PARALLEL: usize = 500;

const A_DAY: i64 = 86_400;
const THIRTY_DAYS: i64 = 30 * A_DAY;

impl Spec {
    /// Reads the `spec` of a FlashJob as the API server gave it.
    pub fn read(spec: &Value, settings: &Settings) -> Result<Spec, Invalid> {
        let spec: FlashJobSpec =
            serde_json::from_value(spec.clone()).map_err(|error| unreadable(spec, &error))?;
        let (devices, selector) = chosen(spec.uuid, spec.device_selector.as_ref())?;
        let firmware = one_word("spec.firmware", required("spec.firmware", &spec.firmware)?)?;
        let version = printable("spec.version", required("spec.version", &spec.version)?)?;
        let one_device = devices.len() == 1 && selector.is_none();
        let (host_endpoint, external_ip, ignored) =
            overrides([&spec.host_endpoint, &spec.external_ip], one_device)?;
        let access =
            Access::read(spec.service.unwrap_or_default(), external_ip.as_ref(), settings)?;
        let image = word("spec.flashjobPodImage", &spec.flashjob_pod_image)?;
        let own_image = image.is_none();
        let image = image.map_or_else(|| default_image(settings), Ok)?;
        let read = |template| Template::read(template, settings.unsafe_pod_templates);
        let template = spec.pod_template.as_ref().map(read).transpose()?.unwrap_or_default();
        let rollout = spec.rollout.unwrap_or_default();
        let retry = spec.retry.unwrap_or_default();
        let max_parallel = max_parallel(rollout.max_parallel, settings)?;
        let backoff = number("spec.retry.backoffSeconds", retry.backoff_seconds, 10, 0..=300)?;
        let device = name("spec.device", &spec.device)?;
        let application_type = name("spec.applicationType", &spec.application_type)?;
        let batch_size = Amount::read("spec.rollout.batchSize", rollout.batch_size, 1)?;
        let path = "spec.rollout.delaySeconds";
        let delay_seconds = number(path, rollout.delay_seconds, 0, 0..=THIRTY_DAYS)?;
        let max_failures = Amount::read("spec.rollout.maxFailures", rollout.max_failures, 0)?;
        let retry_limit = number("spec.retry.limit", retry.limit, 2, 0..=100)? as u32;
        let [device_seconds, address_seconds, offline_seconds] = timeouts(spec.timeouts)?;
        Ok(Spec {
            revision: names::revision(&firmware, &version),
            devices,
            selector,
            firmware,
            version,
            device,
            application_type,
            host_endpoint,
            external_ip,
            image,
            own_image,
            max_parallel,
            batch_size,
            delay_seconds,
            max_failures,
            nonce: trimmed(retry.nonce.as_deref()),
            retry_limit,
            backoff_seconds: backoff,
            device_seconds,
            address_seconds,
            offline_seconds,
            verify: spec.verify.unwrap_or_default(),
            version_policy: spec.version_policy.unwrap_or_default(),
            access,
            template,
            suspend: spec.suspend.unwrap_or_default(),
            abort: spec.abort.unwrap_or_default(),
            ttl_seconds: ttl_seconds(spec.ttl_seconds_after_finished)?,
            ignored,
        })
    }
}

type Overrides = (Option<Endpoint>, Option<String>, Vec<&'static str>);

/// The addresses that are given in the place of those that are found, and the fields that are none because there are more
/// devices than one.
fn overrides(
    [host_endpoint, external_ip]: [&Option<String>; 2],
    one_device: bool,
) -> Result<Overrides, Invalid> {
    let given = [
        ("spec.hostEndpoint", word("spec.hostEndpoint", host_endpoint)?),
        ("spec.externalIP", word("spec.externalIP", external_ip)?),
    ];
    let ignored = given.iter().filter(|(_, value)| value.is_some() && !one_device);
    let ignored = ignored.map(|(field, _)| *field).collect();
    let [host_endpoint, external_ip] = given.map(|(_, value)| value.filter(|_| one_device));
    Ok((host_endpoint.map(Endpoint::from), external_ip, ignored))
}

/// The flash image of jobs that name none.
fn default_image(settings: &Settings) -> Result<String, Invalid> {
    trimmed(settings.flashjob_image.as_deref()).ok_or_else(|| {
        Invalid(
            "spec.flashjobPodImage is empty and the operator has no default: set it, or start the \
             operator with --flashjob-image"
                .into(),
        )
    })
}

fn max_parallel(given: Option<i32>, settings: &Settings) -> Result<usize, Invalid> {
    let given = match number("spec.rollout.maxParallel", given, 25, 0..=500)? {
        0 => MOST_PARALLEL,
        n => n as usize,
    };
    Ok(given.min(settings.max_parallel.unwrap_or(MOST_PARALLEL)))
}

/// How long an attempt may take, an address, and a device that is missing.
fn timeouts(given: Option<Timeouts>) -> Result<[i64; 3], Invalid> {
    let given = given.unwrap_or_default();
    Ok([
        number("spec.timeouts.deviceSeconds", given.device_seconds, 600, 1..=A_DAY)?,
        number("spec.timeouts.addressSeconds", given.address_seconds, 120, 1..=A_DAY)?,
        number("spec.timeouts.offlineSeconds", given.offline_seconds, 300, 0..=THIRTY_DAYS)?,
    ])
}

fn ttl_seconds(given: Option<i32>) -> Result<Option<i64>, Invalid> {
    let path = "spec.ttlSecondsAfterFinished";
    given.map(|_| number(path, given, 0, 0..=i64::from(i32::MAX))).transpose()
}

/// The devices by name, and by what they are.
fn chosen(
    uuid: Option<Vec<String>>,
    selector: Option<&DeviceSelector>,
) -> Result<(Vec<String>, Option<Selector>), Invalid> {
    let selector = selector.map(Selector::read).transpose()?;
    let devices = devices(uuid.unwrap_or_default())?;
    if devices.is_empty() && selector.is_none() {
        let message = "spec.uuid names no device, and there is no deviceSelector";
        return Err(Invalid(message.into()));
    }
    Ok((devices, selector))
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

fn word(path: &str, text: &Option<String>) -> Result<Option<String>, Invalid> {
    trimmed(text.as_deref()).map(|text| one_word(path, text)).transpose()
}

fn name(path: &str, text: &Option<String>) -> Result<Option<String>, Invalid> {
    trimmed(text.as_deref()).map(|text| printable(path, text)).transpose()
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
