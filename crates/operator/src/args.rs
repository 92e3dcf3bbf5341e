//! The command line as a whole. The flags of each part are in its own `args.rs`, and the environment is read there and
//! nowhere else.
//!
//! The flags of the original's Deployment work as they are, with or without the `run` in front, so that its manifest
//! starts this program unchanged.

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::{edge, flashjob, process};

/// Flashes firmware onto devices that Akri has discovered, and looks after Linux devices at the edge.
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
    /// Print a CRD as YAML
    Crd {
        /// The plural of its kind
        #[arg(default_value = FLASHJOBS, value_parser = crd_names())]
        name: String,
    },
    /// Print the version
    Version,
}

/// What `crd` prints when it is not told.
const FLASHJOBS: &str = "flashjobs";

fn crd_names() -> PossibleValuesParser {
    PossibleValuesParser::new([FLASHJOBS].into_iter().chain(flashjob_api::edge::crd::NAMES))
}

#[derive(ClapArgs, Clone, Debug)]
pub struct Options {
    /// Which controllers run
    #[arg(long, value_delimiter = ',', default_value = "flashjob", value_name = "NAMES")]
    pub controllers: Vec<SystemName>,
    #[command(flatten)]
    pub process: process::args::ProcessOptions,
    #[command(flatten)]
    pub flashjob: flashjob::args::FlashJobOptions,
    #[command(flatten)]
    pub edge: edge::args::EdgeOptions,
}

impl Options {
    /// What cannot be together.
    pub fn problem(&self) -> Option<&'static str> {
        let edge = self.controllers.contains(&SystemName::Edge);
        (edge && !self.process.namespace.is_empty()).then_some(
            "--namespace is for FlashJobs, and would let a second process of Edge write the same Secrets: name the devices' \
             namespaces in --edge-namespaces, and run FlashJob in a process of its own",
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SystemName {
    Flashjob,
    Edge,
}

#[cfg(test)]
mod tests {
    use flashjob_plan::flashjob::facts::DeviceNamespaces;

    use super::*;
    use crate::process::args::Bind;

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
            let options = options(&line).process;
            assert!(options.leader_elect);
            assert_eq!(options.metrics_bind_address, Bind("0.0.0.0:8443".parse().ok()));
            assert_eq!(options.health_probe_bind_address, Bind("0.0.0.0:8081".parse().ok()));
        }
    }

    #[test]
    fn the_lease_is_taken_unless_switched_off() {
        assert!(options("manager").process.leader_elect);
        assert!(!options("manager --leader-elect=false").process.leader_elect);
        assert_eq!(options("manager").process.metrics_bind_address, Bind(None));
    }

    #[test]
    fn edge_has_namespaces_of_its_own() {
        assert!(options("manager --controllers=edge --namespace=a").problem().is_some());
        assert!(options("manager --controllers=edge --edge-namespaces=a").problem().is_none());
        assert!(options("manager --namespace=a").problem().is_none());
    }

    #[test]
    fn device_namespaces_are_read() {
        let read = |words: &str| options(words).flashjob.device_namespaces;
        assert_eq!(read("manager"), DeviceNamespaces::All);
        assert_eq!(read("manager --device-namespaces=own"), DeviceNamespaces::Own);
        let named = DeviceNamespaces::Named(vec!["a".into(), "b".into()]);
        assert_eq!(read("manager --device-namespaces=a,b"), named);
    }

    #[test]
    fn what_jobs_may_ask_of_load_balancers_is_given_instead_of_or_beside_the_default() {
        let (pool, name) = ("metallb.io/address-pool", "external-dns.alpha.kubernetes.io/hostname");
        let allowed = |words: &str| {
            let list = options(words).flashjob.settings().service_annotations;
            (list.allows(pool), list.allows(name))
        };
        assert_eq!(allowed("manager"), (true, false));
        assert_eq!(allowed(&format!("manager --service-annotations=default,{name}")), (true, true));
        assert_eq!(allowed(&format!("manager --service-annotations={name}")), (false, true));
        assert_eq!(allowed("manager --service-annotations="), (false, false));
        let classes = |words: &str| options(words).flashjob.settings().load_balancer_classes;
        assert!(classes("manager").allows("public"));
        assert!(!classes("manager --load-balancer-classes=inside").allows("public"));
    }
}
