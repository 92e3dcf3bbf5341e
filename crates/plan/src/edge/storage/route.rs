//! The Route by which OpenShift leads from outside to the S3 server of its buckets: the original reads its host.

use super::server::{Address, PORT};

/// Where OpenShift Data Foundation makes it.
pub const ROUTE_NAMESPACE: &str = "openshift-storage";
pub const ROUTE: &str = "s3";

/// What is known of the Route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Nobody could say so far.
    #[default]
    Unknown,
    /// There is none, or none that Edge may read.
    None,
    At(Address),
    /// It is there, and its host is none.
    WithoutHost,
}

impl Route {
    /// By its `spec.host`. Routers serve HTTPS at one port.
    pub fn with_host(host: Option<&str>) -> Self {
        let address = host.and_then(|host| host.trim().parse::<Address>().ok());
        // A port of its own or an address in brackets is no name of a host.
        let is_name = |address: &Address| Some(address.host.as_str()) == host.map(str::trim);
        match address.filter(|address| is_name(address) && !address.host.starts_with('[')) {
            Some(Address { host, .. }) => Self::At(Address { host, port: PORT }),
            None => Self::WithoutHost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_leads_to_its_host_at_the_port_of_https() {
        for (host, wanted) in [
            (
                Some("s3-openshift-storage.apps.example.com"),
                Some("s3-openshift-storage.apps.example.com"),
            ),
            (Some(" s3.example.com "), Some("s3.example.com")),
            (None, None),
            (Some(""), None),
            (Some("s3.example.com:8443"), None),
            (Some("https://s3.example.com"), None),
            (Some("[::1]"), None),
            (Some("a b"), None),
        ] {
            let at = |host: &str| Route::At(Address { host: host.to_owned(), port: 443 });
            let wanted = wanted.map_or(Route::WithoutHost, at);
            assert_eq!(Route::with_host(host), wanted, "{host:?}");
        }
    }
}
