//! Flags and the environment, read here and nowhere else.
//!
//! The flags of the original's Deployment work as they are, with or without the `run` in front, so that its manifest
//! starts this program unchanged.

use std::net::SocketAddr;

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use flashjob_plan::flashjob::Settings;
use flashjob_plan::flashjob::allow_list::AllowList;
use flashjob_plan::flashjob::facts::DeviceNamespaces;

/// Flashes firmware onto devices that Akri has discovered.
#[derive(Parser)]
#[command(name = "flashjob-operator", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub options: Options,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the operator (also what happens without a command)
    Run(Box<Options>),
    /// Print the FlashJob CRD as YAML
    Crd,
    /// Print the version
    Version,
}

#[derive(ClapArgs, Clone, Debug)]
pub struct Options {
    /// Take turns with other replicas: only the holder of the lease works. Switch it off only where a single process
    /// ever runs
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          require_equals = true, action = ArgAction::Set, value_name = "BOOL")]
    pub leader_elect: bool,

    /// Where metrics are served over plain HTTP, such as :8080; 0 switches them off
    #[arg(long, default_value = "0", value_name = "ADDRESS", value_parser = address)]
    pub metrics_bind_address: Bind,

    /// Where /healthz and /readyz are served; 0 switches them off
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = address)]
    pub health_probe_bind_address: Bind,

    /// Which controllers run
    #[arg(long, value_delimiter = ',', default_value = "flashjob", value_name = "NAMES")]
    pub controllers: Vec<Controller>,

    /// Look after the FlashJobs of this namespace only; empty for all
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub namespace: String,

    /// Where jobs may find devices: * (everywhere), own (the job's namespace), or a list of namespaces
    #[arg(long, default_value = "*", value_name = "NAMESPACES", value_parser = device_namespaces)]
    pub device_namespaces: DeviceNamespaces,

    /// The flash image for jobs that name none
    #[arg(long, env = "FLASHJOB_IMAGE", default_value = "", value_name = "IMAGE")]
    pub flashjob_image: String,

    /// How many writes to the API server may be under way at once
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_writes: u16,

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

    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Which log lines are written, such as debug or flashjob_operator=debug,kube=info
    #[arg(long, env = "RUST_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,

    /// The name this process holds the lease under
    #[arg(long, env = "HOSTNAME", default_value = "flashjob-operator", hide = true)]
    pub identity: String,

    /// How long a watch is trusted to have left nothing out
    #[arg(long, default_value_t = 300, hide = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub list_anew_seconds: u64,

    /// Dies at this write: before:N or after:N
    #[cfg(feature = "crash")]
    #[arg(long, hide = true, value_name = "POINT")]
    pub crash_at: Option<crate::process::crash::CrashPoint>,

    /// Panics when it looks at a job of this version
    #[cfg(feature = "crash")]
    #[arg(long, hide = true, value_name = "VERSION")]
    pub panic_at_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Controller {
    Flashjob,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where a server listens, if it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bind(pub Option<SocketAddr>);

impl Options {
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

/// `:8080` means every address, as Go programs read it; `0` means no server.
fn address(text: &str) -> Result<Bind, String> {
    if text == "0" || text.is_empty() {
        return Ok(Bind(None));
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse()
        .map(|address| Bind(Some(address)))
        .map_err(|_| "expected :port, ip:port, or 0 for none".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Options {
        let args = Args::try_parse_from(words.split(' ')).unwrap();
        match args.command {
            Some(Command::Run(options)) => *options,
            Some(_) => panic!("not a run"),
            None => args.options,
        }
    }

    #[test]
    fn the_command_line_of_the_originals_deployment_works() {
        let given = "--metrics-bind-address=:8443 --leader-elect --health-probe-bind-address=:8081";
        for line in [format!("/manager {given}"), format!("/manager run {given}")] {
            let options = options(&line);
            assert!(options.leader_elect);
            assert_eq!(options.metrics_bind_address, Bind("0.0.0.0:8443".parse().ok()));
            assert_eq!(options.health_probe_bind_address, Bind("0.0.0.0:8081".parse().ok()));
        }
    }

    #[test]
    fn the_lease_is_taken_unless_switched_off() {
        assert!(options("manager").leader_elect);
        assert!(!options("manager --leader-elect=false").leader_elect);
        assert_eq!(options("manager").metrics_bind_address, Bind(None));
    }

    #[test]
    fn device_namespaces_are_read() {
        let read = |words: &str| options(words).device_namespaces;
        assert_eq!(read("manager"), DeviceNamespaces::All);
        assert_eq!(read("manager --device-namespaces=own"), DeviceNamespaces::Own);
        let named = DeviceNamespaces::Named(vec!["a".into(), "b".into()]);
        assert_eq!(read("manager --device-namespaces=a,b"), named);
    }

    #[test]
    fn what_jobs_may_ask_of_load_balancers_is_given_instead_of_or_beside_the_default() {
        let (pool, name) = ("metallb.io/address-pool", "external-dns.alpha.kubernetes.io/hostname");
        let allowed = |words: &str| {
            let list = options(words).settings().service_annotations;
            (list.allows(pool), list.allows(name))
        };
        assert_eq!(allowed("manager"), (true, false));
        assert_eq!(allowed(&format!("manager --service-annotations=default,{name}")), (true, true));
        assert_eq!(allowed(&format!("manager --service-annotations={name}")), (false, true));
        assert_eq!(allowed("manager --service-annotations="), (false, false));
        let classes = |words: &str| options(words).settings().load_balancer_classes;
        assert!(classes("manager").allows("public"));
        assert!(!classes("manager --load-balancer-classes=inside").allows("public"));
    }
}
