//! From method and path to what is asked for.

use http::{Method, Uri};

use super::text::part;

const BASE: &str = "/api/flotta-management/v1/";
/// RFC 1123, as Kubernetes has it.
const LONGEST_NAME: usize = 253;
/// The name in the certificate that all devices register with. No device may have it.
const REGISTER: &str = "register";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    DataIn,
    DataOut,
    ControlIn,
    ControlOut,
    Swagger,
}

impl Endpoint {
    pub fn method(self) -> Method {
        match self {
            Endpoint::DataIn | Endpoint::ControlIn | Endpoint::Swagger => Method::GET,
            Endpoint::DataOut | Endpoint::ControlOut => Method::POST,
        }
    }

    /// Where any body is taken for a message, so that a refusal has none.
    pub fn is_in(self) -> bool {
        matches!(self, Endpoint::DataIn | Endpoint::ControlIn)
    }

    /// For the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Endpoint::DataIn => "data_in",
            Endpoint::DataOut => "data_out",
            Endpoint::ControlIn => "control_in",
            Endpoint::ControlOut => "control_out",
            Endpoint::Swagger => "swagger",
        }
    }
}

/// What the path names, and the device in it as it was written; `None` for a path that is not served.
pub fn endpoint(uri: &Uri) -> Option<(Endpoint, &str)> {
    let path = uri.path().strip_prefix(BASE)?;
    if path == "swagger.json" {
        return Some((Endpoint::Swagger, ""));
    }
    let mut parts = path.split('/');
    let (channel, device, direction) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || device.is_empty() {
        return None;
    }
    let endpoint = match (channel, direction) {
        ("data", "in") => Endpoint::DataIn,
        ("data", "out") => Endpoint::DataOut,
        ("control", "in") => Endpoint::ControlIn,
        ("control", "out") => Endpoint::ControlOut,
        _ => return None,
    };
    Some((endpoint, device))
}

/// The device's name in the cluster; `Err` is why it cannot have one.
pub fn device(id: &str) -> Result<String, String> {
    let name = id.to_ascii_lowercase();
    if name == REGISTER {
        return Err(format!("no device may be called {REGISTER}: give it another id"));
    }
    if !is_name(&name) {
        return Err(format!(
            "the device id {} is no Kubernetes name: use letters, digits, '-' and '.', {LONGEST_NAME} at most, with a letter or digit at both ends",
            part(id)
        ));
    }
    Ok(name)
}

/// Labels of lower-case letters, digits and '-', with neither end a '-', joined by dots.
fn is_name(name: &str) -> bool {
    let label = |label: &str| {
        let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_flottas() {
        let of = |path: &str| {
            let uri = path.parse::<Uri>().unwrap();
            endpoint(&uri).map(|(endpoint, device)| (endpoint, device.to_owned()))
        };
        let base = "/api/flotta-management/v1";
        assert_eq!(of(&format!("{base}/data/a/in")), Some((Endpoint::DataIn, "a".into())));
        assert_eq!(of(&format!("{base}/data/a/out?x=1")), Some((Endpoint::DataOut, "a".into())));
        assert_eq!(of(&format!("{base}/control/A/in")), Some((Endpoint::ControlIn, "A".into())));
        assert_eq!(of(&format!("{base}/control/a/out")), Some((Endpoint::ControlOut, "a".into())));
        assert_eq!(of(&format!("{base}/swagger.json")), Some((Endpoint::Swagger, "".into())));
        for no in ["", "/", "/data", "/data/a", "/data/a/", "/data//in", "/data/a/in/", "/x/a/in"] {
            assert_eq!(of(&format!("{base}{no}")), None, "{no}");
        }
        assert_eq!(of("/"), None);
        assert_eq!(of("*"), None);
    }

    #[test]
    fn a_device_has_a_kubernetes_name() {
        assert_eq!(device("242E48D0-4bff").as_deref(), Ok("242e48d0-4bff"));
        assert_eq!(device("a.b-c.0").as_deref(), Ok("a.b-c.0"));
        assert_eq!(device(&"a".repeat(253)).map(|name| name.len()), Ok(253));
        let long = "a".repeat(254);
        for no in ["Register", "-a", "a-", "a..b", ".", "a_b", "%41", "a.-b", "ä", &long] {
            assert!(device(no).is_err(), "{no}");
        }
    }
}
