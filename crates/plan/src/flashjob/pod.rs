//! The flash Pod: one attempt at one device.
//!
//! It takes its permit from the ledger as an environment variable that must exist, so no kubelet starts a container
//! whose permit has been withdrawn. It has no rights in the cluster and as few as possible on its node.

use std::collections::BTreeMap;

use flashjob_api::flashjob::flash_pod::{self, env};
use flashjob_api::flashjob::{ServiceType, Verify, VersionPolicy};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapEnvSource, ConfigMapKeySelector, Container, ContainerPort,
    EmptyDirVolumeSource, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, Pod,
    PodSecurityContext, PodSpec, SeccompProfile, SecretVolumeSource, SecurityContext, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::flashjob::access::Address;
use crate::flashjob::facts::Job;
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::{Record, shard_of};
use crate::flashjob::names;
use crate::flashjob::service::{labels, owner};
use crate::flashjob::spec::Spec;

/// The Pod of the record's open attempt.
pub fn pod(
    job: &Job,
    spec: &Spec,
    (index, record): (usize, &Record),
    instance: &Instance,
    address: Address<'_>,
) -> Pod {
    let host_network = spec.access.kind == ServiceType::None;
    let env = environment(job, spec, (index, record), instance, address);
    let mut pod = Pod {
        metadata: metadata(job, record, instance),
        spec: Some(PodSpec {
            restart_policy: Some("Never".into()),
            active_deadline_seconds: Some(deadline(spec, record)),
            automount_service_account_token: Some(false),
            host_network: host_network.then_some(true),
            dns_policy: host_network.then(|| "ClusterFirstWithHostNet".into()),
            // Keeps the addresses of every other Service in the namespace out of the environment, except where the
            // original image depends on one of them.
            enable_service_links: Some(!spec.own_image),
            containers: vec![container(spec.image.clone(), env)],
            volumes: Some(vec![
                secret("tls", flash_pod::TLS_SECRET),
                secret("registry", flash_pod::REGISTRY_SECRET),
                Volume {
                    name: "tmp".into(),
                    empty_dir: Some(EmptyDirVolumeSource::default()),
                    ..Volume::default()
                },
            ]),
            security_context: Some(PodSecurityContext {
                // Images of others may need root; ours does not.
                run_as_non_root: spec.own_image.then_some(true),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".into(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            ..PodSpec::default()
        }),
        status: None,
    };
    spec.template.add_to(&mut pod);
    pod
}

fn metadata(job: &Job, record: &Record, instance: &Instance) -> ObjectMeta {
    let mut labels = labels(job, record.target, &instance.uid);
    labels.insert(names::ATTEMPT.to_owned(), record.attempt.to_string());
    ObjectMeta {
        name: Some(names::pod(&job.name, record.target, record.attempt)),
        namespace: Some(job.namespace.clone()),
        labels: Some(labels),
        // A mesh's sidecar would never end and stands between board and flasher.
        annotations: Some(BTreeMap::from([
            ("sidecar.istio.io/inject".to_owned(), "false".to_owned()),
            ("linkerd.io/inject".to_owned(), "disabled".to_owned()),
        ])),
        owner_references: Some(vec![owner(job)]),
        ..ObjectMeta::default()
    }
}

fn container(image: String, env: Vec<EnvVar>) -> Container {
    Container {
        name: flash_pod::CONTAINER.into(),
        image: Some(image),
        env: Some(env),
        env_from: Some(vec![EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource {
                name: flash_pod::SETTINGS.into(),
                optional: Some(true),
            }),
            ..EnvFromSource::default()
        }]),
        ports: Some(vec![ContainerPort {
            container_port: flash_pod::PORT.into(),
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        }]),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![
            mount("tls", flash_pod::TLS_FOLDER, true),
            mount("registry", flash_pod::REGISTRY_FOLDER, true),
            mount("tmp", flash_pod::SCRATCH_FOLDER, false),
        ]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".into()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// As written down with the permit: it is what the attempt is judged by.
fn deadline(spec: &Spec, record: &Record) -> i64 {
    record.deadline_seconds.unwrap_or(spec.device_seconds)
}

fn environment(
    job: &Job,
    spec: &Spec,
    (index, record): (usize, &Record),
    instance: &Instance,
    address: Address<'_>,
) -> Vec<EnvVar> {
    let or = |first: &str, second: &Option<String>| match first {
        "" => second.clone().unwrap_or_default(),
        first => first.to_owned(),
    };
    // What is locked is what is flashed, also if Akri says another address by now.
    let endpoint = record.pinned.as_ref().map(|p| p.endpoint.to_string()).unwrap_or_default();
    let verify = match spec.verify {
        Verify::Version => "Version",
        Verify::Restart => "Restart",
        Verify::None => "None",
    };
    let policy = match spec.version_policy {
        VersionPolicy::Always => "Always",
        VersionPolicy::IfDifferent => "IfDifferent",
    };
    // The original's seven, in its order.
    let original = [
        (env::FIRMWARE, spec.firmware.clone()),
        (env::UUID, instance.uid.clone()),
        (env::HOST_ENDPOINT, endpoint),
        (env::DEVICE, or(&instance.device, &spec.device)),
        (env::APPLICATION_TYPE, or(&instance.application, &spec.application_type)),
        (env::VERSION, spec.version.clone()),
    ];
    let ours = [
        (env::ATTEMPT, record.attempt.to_string()),
        (
            env::PREVIOUS_VERSION,
            record.previous.clone().unwrap_or_else(|| instance.version.clone()),
        ),
        (env::VERIFY, verify.to_owned()),
        (env::VERSION_POLICY, policy.to_owned()),
        (env::DEADLINE_SECONDS, deadline(spec, record).to_string()),
    ];
    let key = names::permit(record.target, record.attempt);
    let permit = permit(names::ledger(&job.name, &job.uid, shard_of(index)), key);
    let ours = ours.map(given).into_iter().chain([permit]);
    original.map(given).into_iter().chain([external_ip(address)]).chain(ours).collect()
}

/// What the board dials.
fn external_ip(address: Address<'_>) -> EnvVar {
    let node = || EnvVarSource {
        field_ref: Some(ObjectFieldSelector {
            field_path: "status.hostIP".into(),
            ..ObjectFieldSelector::default()
        }),
        ..EnvVarSource::default()
    };
    match address {
        Address::Given(address) => given((env::EXTERNAL_IP, address.to_owned())),
        Address::OfNode => looked_up(env::EXTERNAL_IP, node()),
    }
}

/// Without this key in its ledger the container does not start.
fn permit(ledger: String, key: String) -> EnvVar {
    let source = ConfigMapKeySelector { name: ledger, key, optional: Some(false) };
    let source = EnvVarSource { config_map_key_ref: Some(source), ..EnvVarSource::default() };
    looked_up(env::PERMIT, source)
}

fn given((name, value): (&str, String)) -> EnvVar {
    // Kubernetes replaces `$(NAME)` in a value; a user's text is passed as it is.
    let value = Some(value.replace("$(", "$$("));
    EnvVar { name: name.into(), value, value_from: None }
}

fn looked_up(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

fn secret(name: &str, secret: &str) -> Volume {
    Volume {
        name: name.into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.into()),
            optional: Some(true),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}
