//! What Edge watches: the EdgeDevices of each namespace that is served, and the requests for approval in the first.

use flashjob_plan::edge::facts::Settings;
use kube::Api;
use kube::runtime::watcher;

use super::crds::{EDGE_DEVICES, SIGNED_REQUESTS};
use super::input::Input;
use super::{observe, slim};
use crate::engine::watch::Watches;

/// An EdgeDevice may have hundreds of kilobytes of hardware; small pages keep the memory flat.
const PAGE: u32 = 100;

pub fn start(watches: &Watches<Input>, settings: &Settings) {
    let config = || watcher::Config::default().page_size(PAGE);
    for namespace in &settings.namespaces {
        let api: Api<slim::EdgeDevice> = Api::namespaced(watches.client.clone(), namespace);
        let read = |object| Some(observe::device(&object));
        let namespace = namespace.clone();
        let input = move |event| Input::Device(namespace.clone(), event);
        watches.spawn("edgedevices", Some(EDGE_DEVICES), api, config(), read, input);
    }
    let first = settings.first_namespace();
    let api: Api<slim::SignedRequest> = Api::namespaced(watches.client.clone(), first);
    let read = |object| Some(observe::signed_request(&object));
    watches.spawn(
        "edgedevicesignedrequest",
        Some(SIGNED_REQUESTS),
        api,
        config(),
        read,
        Input::Request,
    );
}
