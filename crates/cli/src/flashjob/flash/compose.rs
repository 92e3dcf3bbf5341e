//! From devices and options to a FlashJob.

use anyhow::Result;
use flashjob_api::flashjob::{FlashJob, FlashJobSpec, Rollout, Verify};
use flashjob_plan::flashjob::instances::Instance;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::exit::UsageError;
use crate::flashjob::args::{self, FlashOptions};

/// The job for these devices, and for some that are not there now.
pub fn compose(
    devices: &[Instance],
    absent: &[String],
    options: &FlashOptions,
    namespace: &str,
) -> Result<FlashJob> {
    let firmware = options.firmware.clone().unwrap_or_default();
    let version = options.version.clone().or_else(|| tag(&firmware)).unwrap_or_default();
    let name = match &options.name {
        Some(name) => name.clone(),
        None => name_for(&firmware, &version),
    };
    // By name, because a uid lasts only until Akri finds the device again.
    let paths = devices.iter().map(|device| format!("{}/{}", device.namespace, device.name));
    let rollout = Rollout {
        batch_size: options.batch_size.as_deref().map(number_or_percent).transpose()?,
        delay_seconds: options.delay,
        max_parallel: options.max_parallel,
        max_failures: options.max_failures.as_deref().map(number_or_percent).transpose()?,
    };
    let spec = FlashJobSpec {
        uuid: Some(paths.chain(absent.iter().cloned()).collect()),
        firmware,
        version,
        // Firmware for one type of board reaches no other.
        device: all_the_same(devices.iter().map(|device| device.device.as_str())),
        application_type: all_the_same(devices.iter().map(|device| device.application.as_str())),
        flashjob_pod_image: options.image.clone(),
        rollout: Some(rollout).filter(|rollout| *rollout != Rollout::default()),
        verify: options.verify.map(|verify| match verify {
            args::VerifyArg::Version => Verify::Version,
            args::VerifyArg::Restart => Verify::Restart,
            args::VerifyArg::None => Verify::None,
        }),
        ..FlashJobSpec::default()
    };
    let mut job = FlashJob::new(&name, spec);
    job.metadata.namespace = Some(namespace.to_owned());
    Ok(job)
}

fn all_the_same<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = texts.next().filter(|text| !text.is_empty())?;
    texts.all(|text| text == first).then(|| first.to_owned())
}

fn number_or_percent(text: &str) -> Result<IntOrString, UsageError> {
    if text.ends_with('%') {
        return Ok(IntOrString::String(text.to_owned()));
    }
    let number = text.parse().map_err(|_| UsageError(format!("{text} is too large")))?;
    Ok(IntOrString::Int(number))
}

/// The tag of an image, if it says something.
pub fn tag(firmware: &str) -> Option<String> {
    let name = firmware.split_once('@').map_or(firmware, |(name, _)| name);
    let last = name.rsplit('/').next()?;
    let (_, tag) = last.split_once(':')?;
    Some(tag.to_owned()).filter(|tag| !tag.is_empty() && tag != "latest")
}

/// A name that says what the job does: the image's own name and the version.
fn name_for(firmware: &str, version: &str) -> String {
    let tagged = firmware.split_once('@').map_or(firmware, |(tagged, _)| tagged);
    let last = tagged.rsplit('/').next().unwrap_or_default();
    let image = last.split_once(':').map_or(last, |(image, _)| image);
    let text = format!("{image}-{version}").to_lowercase();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let text: String = text.chars().map(|c| if fits(c) { c } else { '-' }).take(200).collect();
    // Dots and dashes may not meet, and may not be at the ends.
    let mut name = String::new();
    for c in text.chars() {
        let after_mark = name.ends_with(['-', '.']);
        if c.is_ascii_alphanumeric() || (!name.is_empty() && !after_mark) {
            name.push(c);
        }
    }
    let name = name.trim_end_matches(['-', '.']);
    if name.is_empty() { "flashjob".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_tag() {
        let tags = [
            ("registry.example/team/esp32:0.2.0", Some("0.2.0")),
            ("registry.example:5000/esp32", None),
            ("registry.example:5000/esp32:v1@sha256:abc", Some("v1")),
            ("esp32:latest", None),
            ("esp32@sha256:abc", None),
            (":", None),
            ("", None),
        ];
        for (firmware, wanted) in tags {
            assert_eq!(tag(firmware).as_deref(), wanted, "{firmware}");
        }
    }

    #[test]
    fn a_name_is_made_that_a_server_takes() {
        let names = [
            ("registry.example/team/Thermo:0.2.0", "0.2.0", "thermo-0.2.0"),
            ("a/x_y:1", "1.0+build.3", "x-y-1.0-build.3"),
            ("///", "..", "flashjob"),
            ("", "", "flashjob"),
            ("ü", "ß", "flashjob"),
        ];
        for (firmware, version, wanted) in names {
            assert_eq!(name_for(firmware, version), wanted);
        }
    }
}
