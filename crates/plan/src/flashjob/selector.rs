//! Devices by what they are: `spec.deviceSelector`.
//!
//! A choice made too wide flashes boards nobody meant, a choice made too narrow is seen at once as a job without
//! devices. So where a device does not say clearly what it is, it is not chosen.

use std::collections::BTreeMap;

use flashjob_api::flashjob::DeviceSelector;
use flashjob_api::flashjob::instance::same_board;
use semver::{Version, VersionReq};

use crate::flashjob::instances::Instance;
use crate::flashjob::spec::Invalid;

/// Devices by what they are, read and checked. At least one part is given; all that are given must match.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    configuration: Option<String>,
    device: Option<String>,
    application_type: Option<String>,
    version: Option<VersionReq>,
    labels: BTreeMap<String, String>,
}

impl Selector {
    /// Reads what a user wrote. A blank part counts as not given, and a selector without parts is refused: templates
    /// leave such behind, and it would choose every device.
    ///
    /// A range is what Cargo understands: `<0.2.0`, `>=0.1, <0.3`, `=0.2.0`. A bare `0.2.0` means `^0.2.0`.
    pub fn read(selector: &DeviceSelector) -> Result<Selector, Invalid> {
        let version = given(&selector.version).map(|text| range(&text)).transpose()?;
        let read = Selector {
            configuration: given(&selector.configuration),
            device: given(&selector.device),
            application_type: given(&selector.application_type),
            version,
            labels: selector.match_labels.as_ref().map(labels).transpose()?.unwrap_or_default(),
        };
        let Selector { configuration, device, application_type, version, labels } = &read;
        let texts = [configuration, device, application_type];
        if texts.iter().all(|t| t.is_none()) && version.is_none() && labels.is_empty() {
            return Err(Invalid(
                "spec.deviceSelector is empty: it would choose every device; say what to choose"
                    .into(),
            ));
        }
        Ok(read)
    }

    /// Whether this device is chosen. One that Akri is taking away or that has no address cannot be flashed, and the
    /// choice is kept for the whole job, so it is left out.
    pub fn matches(&self, instance: &Instance) -> bool {
        !instance.deleting && !instance.endpoint.as_str().trim().is_empty() && self.fits(instance)
    }

    /// The type of board that is looked for, if that is said.
    pub fn device(&self) -> Option<&String> {
        self.device.as_ref()
    }

    /// Whether this device is what is looked for, be it that it cannot be flashed now.
    pub fn fits(&self, instance: &Instance) -> bool {
        self.version.as_ref().is_none_or(|range| in_range(range, &instance.version))
            && self.fits_any_version(instance)
    }

    /// The same, whatever version it runs.
    pub fn fits_any_version(&self, instance: &Instance) -> bool {
        let application = instance.application.trim().to_lowercase();
        self.configuration.as_ref().is_none_or(|c| c == instance.configuration.trim())
            && self.device.as_ref().is_none_or(|d| same_board(d, &instance.device))
            && self.application_type.as_ref().is_none_or(|a| a.to_lowercase() == application)
            && self.labels.iter().all(|(key, value)| instance.labels.get(key) == Some(value))
    }
}

/// Whether what a device reports is in the range. What cannot be read as a version is in none.
///
/// A pre-release such as 0.2.0-rc.1 is in a range only when the range itself names a pre-release of 0.2.0: as in
/// Cargo and npm, `<0.2.0` chooses no pre-release at all, not even 0.1.0-rc.1. Whoever means test builds says so.
fn in_range(range: &VersionReq, reported: &str) -> bool {
    version(reported).is_some_and(|version| range.matches(&version))
}

/// Reads a version the way boards write them: `v0.2.0`, and `0.2` or `0.2-rc.1` for what is 0.2.0.
fn version(reported: &str) -> Option<Version> {
    let text = reported.trim();
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let missing = 2usize.saturating_sub(numbers.matches('.').count());
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

fn range(text: &str) -> Result<VersionReq, Invalid> {
    VersionReq::parse(text).map_err(|error| {
        Invalid(format!("spec.deviceSelector.version {text:?} is not a semver range: {error}"))
    })
}

/// Labels as they can stand on an Instance. One that cannot would match nothing and leave the user waiting. An empty
/// value stays: it is a value a label may have, and leaving it out would choose more devices.
fn labels(written: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Invalid> {
    let path = "spec.deviceSelector.matchLabels";
    let mut labels = BTreeMap::new();
    for (key, value) in written {
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() {
            return Err(Invalid(format!("{path} has a label without a name")));
        }
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if value.len() > 63 || !value.chars().all(fine) {
            return Err(Invalid(format!("{path}: {value:?} cannot be the value of label {key:?}")));
        }
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(Invalid(format!("{path} names {key:?} twice")));
        }
    }
    Ok(labels)
}

fn given(text: &Option<String>) -> Option<String> {
    text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(selector: Value) -> Result<Selector, Invalid> {
        Selector::read(&serde_json::from_value(selector).expect("a DeviceSelector"))
    }

    fn board() -> Instance {
        Instance {
            configuration: "akri-esp".into(),
            endpoint: "10.0.0.1".into(),
            device: "ESP32-S3".into(),
            application: "Thermo".into(),
            version: "0.1.0".into(),
            labels: [("site", "athens"), ("spare", "")].map(|(k, v)| (k.into(), v.into())).into(),
            ..Instance::default()
        }
    }

    #[test]
    fn all_that_is_given_must_match() {
        for (selector, chosen) in [
            (json!({ "configuration": " akri-esp " }), true),
            (json!({ "configuration": "Akri-ESP" }), false),
            (json!({ "device": "esp32_s3" }), true),
            (json!({ "device": "esp32" }), false),
            (json!({ "applicationType": " thermo", "device": " ", "version": null }), true),
            (json!({ "applicationType": "thermos" }), false),
            (json!({ "version": "<0.2.0", "matchLabels": {} }), true),
            (json!({ "matchLabels": { "site": "athens", "spare": "" } }), true),
            (json!({ "matchLabels": { "site": "" } }), false),
            (json!({ "matchLabels": { "other": "" } }), false),
            (json!({ "device": "esp32s3", "matchLabels": { "site": "patras" } }), false),
            (json!({ "device": "esp32s3", "version": ">=0.2.0" }), false),
        ] {
            let read = read(selector.clone()).expect("valid");
            assert_eq!(read.matches(&board()), chosen, "{selector}");
            assert!(!read.matches(&Instance { deleting: true, ..board() }), "leaving: {selector}");
            assert!(!read.matches(&Instance { endpoint: " ".into(), ..board() }), "{selector}");
        }
    }

    #[test]
    fn versions_are_read_as_boards_write_them() {
        for (range, inside, outside) in [
            ("<0.2.0", "0.1.9 v0.1.9 V0.1 0.1.0+7 0", "0.2 0.2.0-rc.1 0.1.0-rc.1 0.1.2.3 x v -1"),
            (">=0.1, <0.3", "0.1.0 0.2", "0.3.0 0.0.9 0..1 0.1."),
            ("0.2.0", "0.2.0 0.2.7", "0.3.0 0.1.9"),
            ("=0.2.0", "0.2.0 v0.2 0.2.0+b", "0.2.1"),
            (">=0.2.0-rc.1", "0.2.0-rc.2 0.2-rc.1 0.3.0", "0.2.0-beta 0.3.0-rc.1"),
            ("*", "0.0.1 9", "1.0.0-rc.1 unknown 01.0.0 99999999999999999999"),
        ] {
            let selector = read(json!({ "version": range })).expect("valid");
            let fits = |v: &str| selector.matches(&Instance { version: v.into(), ..board() });
            inside.split(' ').for_each(|v| assert!(fits(v), "{range} has {v}"));
            outside.split(' ').for_each(|v| assert!(!fits(v), "{range} has not {v}"));
            assert!(!fits(""), "{range}: no version");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let blank = json!({ "device": " ", "version": "", "matchLabels": {} });
        for (selector, message) in [
            (json!({}), "spec.deviceSelector is empty: it would choose every device"),
            (blank, "spec.deviceSelector is empty"),
            (json!({ "version": "<<1" }), "spec.deviceSelector.version \"<<1\" is not a semver"),
            (json!({ "matchLabels": { " ": "x" } }), "matchLabels has a label without a name"),
            (json!({ "matchLabels": { "a": "x y" } }), "\"x y\" cannot be the value of label"),
            (json!({ "matchLabels": { "a": "x", " a": "y" } }), "names \"a\" twice"),
        ] {
            let Invalid(error) = read(selector.clone()).expect_err("refused");
            assert!(error.contains(message), "{selector}: {error}");
        }
    }
}
