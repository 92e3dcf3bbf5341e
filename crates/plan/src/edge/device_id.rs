//! The id of a device, which is the name of its EdgeDevice and the common name of its certificate.

use std::fmt;
use std::sync::Arc;

/// What the registration certificate is called; no device may be.
pub const REGISTER: &str = "register";

/// The longest name that Kubernetes takes.
const LONGEST: usize = 253;

/// In lower case, and a name for Kubernetes. Agents take it from the machine, some of them in upper case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(Arc<str>);

/// What was given as the id of a device is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidId;

impl DeviceId {
    pub fn read(text: &str) -> Result<Self, InvalidId> {
        let id = text.to_ascii_lowercase();
        if id != REGISTER && is_subdomain(&id) { Ok(Self(id.into())) } else { Err(InvalidId) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the device id has to be a Kubernetes name: up to 253 letters, digits, dashes and dots, beginning and ending with \
             a letter or digit; and not `register`",
        )
    }
}

/// RFC 1123, as Kubernetes checks the names of most objects.
pub(super) fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !label.is_empty()
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= LONGEST && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_kubernetes_name_in_lower_case() {
        let read = |text: &str| DeviceId::read(text).map(|id| id.0);
        assert_eq!(read("242E48D0-A.b").as_deref(), Ok("242e48d0-a.b"));
        assert_eq!(read("7").as_deref(), Ok("7"));
        let long = "a".repeat(LONGEST);
        assert_eq!(read(&long), Ok(long.clone().into()));
        let too_long = long + "a";
        for wrong in [
            "", "register", "REGISTER", "-a", "a-", "a..b", ".a", "a.", "a/b", "a b", "ä", "a_b",
            "a\n", &too_long,
        ] {
            assert_eq!(read(wrong), Err(InvalidId), "{wrong:?}");
        }
    }
}
