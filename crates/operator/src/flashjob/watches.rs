//! What FlashJob watches: jobs, Akri's Instances, and the Pods and Services of jobs.

use flashjob_plan::flashjob::children::{Child, Foreign};
use flashjob_plan::flashjob::facts::{Pod, Service};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::names;
use kube::Api;
use kube::runtime::watcher;

use super::crds::{FLASHJOBS, INSTANCES};
use super::input::Input;
use super::observe;
use super::slim;
use crate::engine::watch::{WatchEvent, Watches};

/// Jobs that are listed at once.
const JOBS_PER_PAGE: u32 = 8;

/// An object that says it belongs to a job, or one that has our labels and no more.
pub type Claimed<T> = Result<Box<Child<T>>, Box<Foreign>>;

/// What any of the watches says.
#[derive(Debug)]
pub enum Watched {
    Job(WatchEvent<Box<slim::FlashJob>>),
    Instance(WatchEvent<Box<Instance>>),
    Pod(WatchEvent<Claimed<Pod>>),
    Service(WatchEvent<Claimed<Service>>),
}

/// Starts the watch of jobs. Each may be a megabyte large: small pages keep the memory flat.
pub fn start_jobs(watches: &Watches<Input>) {
    let jobs: Api<slim::FlashJob> = watches.scoped();
    let read = |object| Some(Box::new(object));
    let all = watcher::Config::default().page_size(JOBS_PER_PAGE);
    watches.spawn("flashjobs", Some(FLASHJOBS), jobs, all, read, |event| {
        Input::Watched(Watched::Job(event))
    });
}

/// Starts the watch of Instances. They may be in any namespace; which of them a job may use is a decision.
pub fn start_instances(watches: &Watches<Input>) {
    let instances: Api<slim::Instance> = Api::all(watches.client.clone());
    let read = |object| observe::instance(object).map(Box::new);
    let all = watcher::Config::default();
    watches.spawn("instances", Some(INSTANCES), instances, all, read, |event| {
        Input::Watched(Watched::Instance(event))
    });
}

/// Starts the watches of what belongs to jobs. The jobs are known by now: whether there is one that an object belongs to
/// can be told at once.
pub fn start_children(watches: &Watches<Input>) {
    let ours = watcher::Config::default().labels(names::JOB_UID);
    let pods: Api<slim::Pod> = watches.scoped();
    let read = |object| Some(observe::pod(object).map(Box::new).map_err(Box::new));
    watches
        .spawn("pods", None, pods, ours.clone(), read, |event| Input::Watched(Watched::Pod(event)));

    let services: Api<slim::Service> = watches.scoped();
    let read = |object| Some(observe::service(object).map(Box::new).map_err(Box::new));
    watches.spawn("services", None, services, ours, read, |event| {
        Input::Watched(Watched::Service(event))
    });
}
