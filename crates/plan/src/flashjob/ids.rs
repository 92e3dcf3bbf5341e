//! What jobs and their parts are known by. Each is a type of its own, so that none is taken for another.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// The uid of a job. Thousands of boards and objects have the same one, so a copy of it is a count.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct JobUid(Arc<str>);

impl JobUid {
    /// That of a job as the API server shows it.
    pub fn of(metadata: &ObjectMeta) -> JobUid {
        metadata.uid.as_deref().unwrap_or_default().into()
    }

    /// One that somebody has written into an owner reference. No uid has a slash in it; that is for [strays](JobUid::stray).
    pub fn read(written: &str) -> Option<JobUid> {
        Some(written).filter(|uid| !uid.is_empty() && !uid.contains('/')).map(JobUid::from)
    }

    /// In the place of a uid, for a Pod whose job was never seen.
    pub fn stray(namespace: &str, pod_uid: &str) -> JobUid {
        format!("{namespace}/{pod_uid}").into()
    }
}

impl From<&str> for JobUid {
    fn from(uid: &str) -> JobUid {
        JobUid(uid.into())
    }
}

impl From<String> for JobUid {
    fn from(uid: String) -> JobUid {
        JobUid(uid.into())
    }
}

impl From<JobUid> for String {
    fn from(uid: JobUid) -> String {
        uid.0.as_ref().to_owned()
    }
}

impl Deref for JobUid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for JobUid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Display for JobUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// One device in one revision of one job, in twelve hexadecimal digits; [`names::target`](super::names::target) makes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target([u8; 12]);

impl Target {
    /// One that somebody has written into a label; `None` if it is not as we write them.
    pub fn read(written: &str) -> Option<Target> {
        let digits: [u8; 12] = written.as_bytes().try_into().ok()?;
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        digits.iter().all(is_digit).then_some(Target(digits))
    }

    /// The first twelve hexadecimal digits of a hash.
    pub(super) fn of_hash(hash: &[u8]) -> Target {
        let mut digits = [b'0'; 12];
        for (two, byte) in digits.chunks_exact_mut(2).zip(hash) {
            two.copy_from_slice(&[byte >> 4, byte & 15].map(hexadecimal));
        }
        Target(digits)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        // There is nothing else in it.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn hexadecimal(number: u8) -> u8 {
    match number {
        0..=9 => b'0' + number,
        _ => b'a' + number - 10,
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_twelve_digits_as_we_write_them() {
        let target = Target::of_hash(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xaf, 0xff]);
        assert_eq!(target.as_str(), "0123456789af");
        assert_eq!(Target::read("0123456789af"), Some(target));
        for written in ["", "0123456789a", "0123456789aff", "0123456789AF", "0123456789ag"] {
            assert_eq!(Target::read(written), None, "{written}");
        }
    }

    #[test]
    fn the_key_of_a_stray_is_no_uid() {
        assert_eq!(JobUid::read(&JobUid::stray("ns", "uid")), None);
        assert_eq!(JobUid::read(""), None);
        assert_eq!(JobUid::read("uid").as_deref(), Some("uid"));
    }
}
