//! From method and path to what is asked for.

use http::{Method, Uri};

const BASE: &str = "/api/flotta-management/v1/";

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
}
