//! Events of Kubernetes about devices. Each is an object of its own, with its own sentence: what a device says of one container is
//! not what it said of the other, though both are called Failed.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;

use crate::engine::pool::Caller;
use crate::process::clock;

/// Who reports, by the name that the original has.
const REPORTER: &str = "flotta-edge-api";

/// What there is to say of an object.
pub struct News {
    pub warning: bool,
    pub reason: String,
    pub message: String,
}

/// Says it, in the namespace of the object.
pub async fn publish(caller: &Caller, regarding: ObjectReference, news: News) -> kube::Result<()> {
    let namespace = regarding.namespace.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(caller.client.clone(), &namespace);
    let type_ = if news.warning { "Warning" } else { "Normal" };
    let event = Event {
        metadata: ObjectMeta {
            // The server cuts off what is too long, and adds what makes it unique.
            generate_name: regarding.name.as_ref().map(|name| format!("{name}-")),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        action: Some("Report".to_owned()),
        event_time: Some(MicroTime(clock::now())),
        note: Some(news.message),
        reason: Some(news.reason),
        regarding: Some(regarding),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(REPORTER.to_owned()),
        type_: Some(type_.to_owned()),
        ..Event::default()
    };
    caller.call(events.create(&PostParams::default(), &event)).await.map(drop)
}
