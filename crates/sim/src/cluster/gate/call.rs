//! One call to the API server, as a gate sees it.

use bytes::Bytes;
use serde_json::Value;

/// A call that came to a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, if any.
    pub query: Option<String>,
    /// Which mutating call this is, from 1. Reads and calls to leases are not counted and have 0.
    pub number: usize,
    /// The body.
    pub body: Bytes,
}

impl Call {
    /// Whether it is to change something.
    pub fn is_mutating(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE")
    }

    /// Whether it asks for the changes from now on.
    pub fn is_watch(&self) -> bool {
        let mut query = self.query.as_deref().unwrap_or_default().split('&');
        self.method == "GET" && query.any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }

    /// Whether it asks for all objects of a kind.
    pub fn is_list(&self) -> bool {
        let place = self.place();
        let of_a_kind = !place.resource.is_empty() && place.name.is_none();
        self.method == "GET" && of_a_kind && !self.is_watch()
    }

    /// Whether it is about a Lease.
    pub fn is_lease(&self) -> bool {
        self.resource() == "leases"
    }

    /// Whether it is about an Event.
    pub fn is_event(&self) -> bool {
        self.resource() == "events"
    }

    /// The resource in the plural, such as `pods`; empty for paths such as `/readyz`.
    pub fn resource(&self) -> &str {
        self.place().resource
    }

    /// The subresource, such as `status`.
    pub fn subresource(&self) -> Option<&str> {
        self.place().subresource
    }

    /// The namespace, if the call is for one.
    pub fn namespace(&self) -> Option<&str> {
        self.place().namespace
    }

    /// The object's name: from the path, or for a create from the body.
    pub fn name(&self) -> Option<String> {
        let named = self.place().name.map(str::to_owned);
        named.or_else(|| Some(self.json()?["metadata"]["name"].as_str()?.to_owned()))
    }

    /// The body as JSON, if it is that.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    fn place(&self) -> Place<'_> {
        Place::of(&self.path)
    }
}

/// What a path of the API says: `/api/v1` or `/apis/<group>/<version>`, then maybe `namespaces/<namespace>`, then
/// resource, name and subresource.
#[derive(Default)]
struct Place<'a> {
    namespace: Option<&'a str>,
    resource: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => return Self::default(),
        };
        let (namespace, rest) = match rest {
            // `namespaces/<name>/status` and `/finalize` are the Namespace's own.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        Self {
            namespace,
            resource: rest.first().copied().unwrap_or_default(),
            name: rest.get(1).copied(),
            subresource: rest.get(2).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str, body: &'static str) -> Call {
        Call {
            method: method.to_owned(),
            path: path.to_owned(),
            query: None,
            number: 0,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[test]
    fn paths_are_understood() {
        let create = call("POST", "/api/v1/namespaces/a/pods", r#"{"metadata":{"name":"p"}}"#);
        assert_eq!((create.resource(), create.namespace()), ("pods", Some("a")));
        assert_eq!(create.name().as_deref(), Some("p"));
        let path = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/a/flashjobs/j/status";
        let status = call("PATCH", path, "");
        assert_eq!((status.resource(), status.subresource()), ("flashjobs", Some("status")));
        let namespace = call("DELETE", "/api/v1/namespaces/a", "");
        assert_eq!((namespace.resource(), namespace.namespace()), ("namespaces", None));
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
        assert!(call("POST", lease, "").is_lease());
        assert!(call("PUT", &format!("{lease}/operator"), "").is_lease());
        let mut read = call("GET", "/api/v1/pods", "");
        assert!(read.is_list() && !read.is_watch());
        read.query = Some("labelSelector=a&watch=true".to_owned());
        assert!(read.is_watch() && !read.is_list());
        assert!(!call("GET", "/api/v1/namespaces/a/pods/p", "").is_list());
    }
}
