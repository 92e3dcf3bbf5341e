//! Flags of FlashJob.

use clap::Args;
use flashjob_plan::flashjob::Settings;
use flashjob_plan::flashjob::allow_list::AllowList;
use flashjob_plan::flashjob::facts::DeviceNamespaces;

#[derive(Args, Clone, Debug)]
#[group(skip)]
#[command(next_help_heading = "FlashJob")]
pub struct FlashJobOptions {
    /// Where jobs may find devices: * (everywhere), own (the job's namespace), or a list of namespaces
    #[arg(long, default_value = "*", value_name = "NAMESPACES", value_parser = device_namespaces)]
    pub device_namespaces: DeviceNamespaces,

    /// The flash image for jobs that name none
    #[arg(long, env = "FLASHJOB_IMAGE", default_value = "", value_name = "IMAGE")]
    pub flashjob_image: String,

    /// An upper bound for every job's rollout.maxParallel
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
    pub max_parallel: u16,

    /// Let jobs ask for service.type None, that is for their node's network
    #[arg(long)]
    pub allow_host_network: bool,

    /// Which service.annotations jobs may have: keys, or beginnings of them with a * at the end. `default` stands for those
    /// that only choose the pool or the network of an address
    #[arg(long, default_value = "default", value_name = "KEYS", value_parser = service_annotations)]
    pub service_annotations: AllowList,

    /// Which service.loadBalancerClass jobs may ask for: classes, or beginnings of them with a * at the end
    #[arg(long, default_value = "*", value_name = "CLASSES", value_parser = load_balancer_classes)]
    pub load_balancer_classes: AllowList,

    /// Let podTemplate ask for anything. Whoever may create FlashJobs then gets whatever a Pod can get
    #[arg(long)]
    pub unsafe_pod_templates: bool,

    /// Panics when it reconciles a job of this version
    #[cfg(feature = "crash")]
    #[arg(long, hide = true, value_name = "VERSION")]
    pub panic_at_version: Option<String>,
}

impl FlashJobOptions {
    /// The settings decisions depend on.
    pub fn settings(&self) -> Settings {
        Settings {
            flashjob_image: Some(self.flashjob_image.clone()).filter(|i| !i.trim().is_empty()),
            device_namespaces: self.device_namespaces.clone(),
            max_parallel: Some(usize::from(self.max_parallel)),
            allow_host_network: self.allow_host_network,
            unsafe_pod_templates: self.unsafe_pod_templates,
            service_annotations: self.service_annotations.clone(),
            load_balancer_classes: self.load_balancer_classes.clone(),
        }
    }
}

fn device_namespaces(text: &str) -> Result<DeviceNamespaces, String> {
    match text.trim() {
        "" => Err("expected *, own, or a list of namespaces".to_owned()),
        "*" => Ok(DeviceNamespaces::All),
        "own" => Ok(DeviceNamespaces::Own),
        list => Ok(DeviceNamespaces::Named(
            list.split(',').map(|name| name.trim().to_owned()).collect(),
        )),
    }
}

fn service_annotations(text: &str) -> Result<AllowList, String> {
    AllowList::read(text, AllowList::service_annotations())
}

fn load_balancer_classes(text: &str) -> Result<AllowList, String> {
    AllowList::read(text, AllowList::any())
}
