//! The bucket that is claimed for a device, as far as the user may see it: the claim, and where the operator has devices reach
//! the buckets, by its flags or by OpenShift's Route.

use anyhow::Result;
use flashjob_api::edge::{ObjectBucketClaim, Settings};
use flashjob_plan::edge::preview::Device;
use flashjob_plan::edge::read;
use flashjob_plan::edge::storage::{
    Claim, Known, Place, ROUTE, ROUTE_NAMESPACE, Route, Server, Wish, decide,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource};

use crate::check::{get, served};
use crate::edge::SYSTEM;
use crate::edge::check::{DEPLOYMENT, flag};
use crate::read::dynamic;

/// What was found.
#[derive(Debug)]
pub struct Bucket {
    pub claim: Claim,
    pub server: Server,
    /// What could not be seen: what is shown may be another thing than what the device is told.
    pub unseen: Option<String>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { claim: Claim::None, server: Server::default(), unseen: None }
    }
}

/// A claim as it is in the storage of its device.
pub fn place(device: &Device) -> Place<'_> {
    Place { namespace: &device.namespace, name: &device.name, uid: &device.uid }
}

impl Bucket {
    pub async fn read(
        client: &Client,
        device: &Device,
        settings: &Settings,
        home: &str,
    ) -> Result<Bucket> {
        // Whether the operator makes claims nobody is told here: one that is not there has no bucket.
        let wish = Wish::of(settings, false);
        let mut bucket = Bucket::default();
        if wish == Wish::Own {
            return Ok(bucket);
        }
        let place = place(device);
        let kinds = served(client, &ObjectBucketClaim::api_version(&())).await;
        let kinds = kinds.map_err(|error| SYSTEM.failed("cannot list kinds".to_owned(), &error))?;
        if !kinds.iter().any(|kind| *kind == ObjectBucketClaim::plural(&())) {
            bucket.claim = decide(wish, place, Known::NoKind);
            return Ok(bucket);
        }
        let claims = dynamic::<ObjectBucketClaim>(client, Some(&device.namespace));
        let found = match claims.get_opt(&device.name).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                bucket.unseen = Some(format!(
                    "the {place} you may not read: a bucket that is claimed for the device is not shown"
                ));
                return Ok(bucket);
            }
            Err(error) => return Err(SYSTEM.failed(format!("cannot read the {place}"), &error)),
        };
        let found = found.map(|claim| read::claim(&claim.metadata, &claim.data["status"]));
        bucket.claim = decide(wish, place, Known::Listed(found.as_ref()));
        if bucket.claim == Claim::Bound {
            let deployment = get::<Deployment>(client, home, DEPLOYMENT).await.ok().flatten();
            (bucket.server, bucket.unseen) = server(deployment.as_ref());
            if bucket.server.address.is_none() {
                let (route, said) = route(client).await;
                bucket.server.route = route;
                bucket.unseen = bucket.unseen.or(said);
            }
        }
        Ok(bucket)
    }
}

/// Where devices reach the buckets, by the operator's flags, and what is not known of that.
fn server(operator: Option<&Deployment>) -> (Server, Option<String>) {
    let inside = Server { route: Route::None, ..Server::default() };
    let Some(operator) = operator else {
        let unseen = "the flags of the operator you cannot see: with --edge-s3-address the address of the bucket is another \
                      than what is shown";
        return (inside, Some(unseen.to_owned()));
    };
    let last = |name| flag(operator, name).into_iter().next_back();
    let address = last("--edge-s3-address").and_then(|address| address.parse().ok());
    let unseen = last("--edge-s3-ca").map(|file| {
        format!("the CA of the bucket's server is in the operator's Pod ({file}) and is not shown")
    });
    (Server { address, ..inside }, unseen)
}

/// OpenShift's Route to them, and what is to be said of it: whether the operator may read it, nobody can see here.
async fn route(client: &Client) -> (Route, Option<String>) {
    let kind = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let kind = ApiResource::from_gvk(&kind);
    if !served(client, &kind.api_version).await.is_ok_and(|kinds| kinds.contains(&kind.plural)) {
        return (Route::None, None);
    }
    let routes: Api<DynamicObject> = Api::namespaced_with(client.clone(), ROUTE_NAMESPACE, &kind);
    let path = format!("{ROUTE_NAMESPACE}/{ROUTE}");
    match routes.get_opt(ROUTE).await {
        Ok(None) => (Route::None, None),
        Ok(Some(found)) => {
            let route = Route::with_host(found.data["spec"]["host"].as_str());
            let said = format!(
                "the bucket's address is that of the Route {path}, if the operator may read that"
            );
            (route, Some(said))
        }
        Err(_) => {
            let said = format!(
                "the Route {path} you may not read: if it is there, the bucket's address is its host"
            );
            (Route::None, Some(said))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started_with(args: &[&str]) -> (Option<String>, Option<String>) {
        let container = json!({ "name": "manager", "args": args });
        let template = json!({ "spec": { "containers": [container] } });
        let spec = json!({ "selector": {}, "template": template });
        let deployment = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        let (server, unseen) = server(Some(&deployment));
        (server.address.map(|address| address.to_string()), unseen)
    }

    #[test]
    fn the_operators_flags_say_where_buckets_are() {
        assert_eq!(started_with(&["--controllers=edge"]), (None, None));
        let wanted = (Some("s3.example.com:443".to_owned()), None);
        assert_eq!(started_with(&["--edge-s3-address=s3.example.com"]), wanted);
        assert_eq!(started_with(&["--edge-s3-address", "s3.example.com:443"]), wanted);
        let (_, unseen) = started_with(&["--edge-s3-ca=/s3/ca.crt"]);
        assert!(unseen.is_some_and(|unseen| unseen.contains("(/s3/ca.crt) and is not shown")));
        assert!(server(None).1.is_some_and(|unseen| unseen.contains("--edge-s3-address")));
    }
}
