//! Names: of objects, labels and annotations. All are valid at any job name, and the same for the same input.

use sha2::{Digest, Sha256};

use crate::flashjob::ids::{JobUid, Target};

/// Label on every child: the uid of its job. The watches select by it.
pub const JOB_UID: &str = "application.flashjob.nbfc.io/job-uid";
/// Label on Service and Pod: which device in which revision. The Service selects its Pod by it.
pub const TARGET: &str = "application.flashjob.nbfc.io/target";
/// Label on the Pod: which attempt.
pub const ATTEMPT: &str = "application.flashjob.nbfc.io/attempt";
/// Label on the ledger's ConfigMaps: which shard.
pub const SHARD: &str = "application.flashjob.nbfc.io/ledger-shard";
/// Annotation on the job: its ledger is sealed, and under this name.
pub const LEDGER: &str = "application.flashjob.nbfc.io/ledger";
/// Label on the Service: what was asked for when it was made.
pub const SPEC_HASH: &str = "application.flashjob.nbfc.io/shape";
/// Label on the Service: where its address is to come from.
pub const POOL: &str = "application.flashjob.nbfc.io/pool";
/// The finalizer, as the original named it.
pub const FINALIZER: &str = "application.flashjob.nbfc.io/flashjob-finalizer";

/// The start of every child's name: readable, and short enough that what follows always fits 63 characters.
pub fn base(job: &str) -> String {
    let mut base: String = job.replace('.', "-").chars().take(30).collect();
    if !base.starts_with(|c: char| c.is_ascii_lowercase()) {
        base.insert_str(0, "fj-");
    }
    // A cut may end in a dash, which is fine in the middle of a name.
    base
}

/// Firmware and version in one word: what "the same firmware" means.
pub fn revision(firmware: &str, version: &str) -> String {
    hex(&[firmware, version], 10)
}

/// One device in one revision of one job.
pub fn target(job_uid: &JobUid, device: &str, revision: &str) -> Target {
    Target::of_hash(&hash(&[job_uid, device, revision]))
}

/// Whether a label or annotation is one of ours, which no user may set.
pub fn is_ours(key: &str) -> bool {
    key.strip_prefix(flashjob_api::flashjob::GROUP).is_some_and(|rest| rest.starts_with('/'))
}

/// What a job asks of its Services, in one word.
pub fn spec_hash(asked: &str) -> String {
    hex(&[asked], 10)
}

/// What chooses the addresses that a Service may get, in one word.
pub fn pool(chosen_by: &str) -> String {
    hex(&[chosen_by], 10)
}

/// The name of a device's Service.
pub fn service(job: &str, target: Target) -> String {
    format!("{}-{target}", base(job))
}

/// The name of the Pod of one attempt.
pub fn pod(job: &str, target: Target, attempt: u32) -> String {
    format!("{}-{target}-{attempt}", base(job))
}

/// The name of one shard of the ledger.
pub fn ledger(job: &str, job_uid: &JobUid, shard: usize) -> String {
    format!("{}-ledger-{}-{shard}", base(job), hex(&[job_uid], 8))
}

/// The key in the ledger without which the attempt's container does not start.
pub fn permit(target: Target, attempt: u32) -> String {
    format!("permit-{target}-{attempt}")
}

/// A label value from any text: cut to 63 and trimmed to what a label may end in.
pub fn label_value(text: &str) -> String {
    let cut: String = text.chars().take(63).collect();
    cut.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// The first `digits` hex digits of the hash of the parts.
fn hex(parts: &[&str], digits: usize) -> String {
    let mut text: String = hash(parts).iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

/// The SHA-256 of the parts. Each part ends in a zero byte, so that no two lists of parts run together into one text.
fn hash(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_dns_label_at_any_job_name() {
        let long = "a".repeat(253);
        for job in ["flashjob", "9-starts-with-a-digit", "with.dots.in.it", &long] {
            let uid = &JobUid::from("uid");
            let target = target(uid, "device", "revision");
            let names = [service(job, target), pod(job, target, 1234), ledger(job, uid, 156)];
            for name in names {
                assert!(name.len() <= 63, "{name} is {} long", name.len());
                assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
                assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
            }
        }
    }

    #[test]
    fn a_label_value_ends_in_a_letter_or_digit() {
        assert_eq!(label_value(&format!("{}.x", "a".repeat(62))), "a".repeat(62));
        assert_eq!(label_value("plain"), "plain");
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(revision("ab", "c"), revision("a", "bc"));
    }
}
