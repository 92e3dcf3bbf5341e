//! The settings of a device as they are sent. Defaults are the original's.
//!
//! What cannot be had leaves out its part, and is a problem; all else is sent, because a device without its log server is
//! better than one that hears nothing. Two things are always there, also empty: the original's agent reads the hardware profile
//! without a look whether there is one, and expects the limits of a receiver of metrics.

use std::collections::BTreeMap;

use flashjob_api::edge::wire::{
    ComponentMetrics, DeviceConfiguration, DeviceMetrics, HardwareProfile, HeartbeatConfiguration,
    LogCollection, MetricsReceiver, MetricsRetention, Mount, OsInformation, SyslogConfig,
};
use flashjob_api::edge::{self, Settings};

use super::fragment::METRICS_INTERVAL;
use super::material::Material;
use super::needs::name;
use super::reader::{Reader, shown};
use super::references::{Kind, Reference};
use super::storage::{self, Bucket};
use crate::edge::problem::Problem;

/// Seconds between two heartbeats.
pub const HEARTBEAT_PERIOD: i64 = 60;
const BUFFER_SIZE: i32 = 12;
const SYSLOG: &str = "syslog";
const REQUEST_NUM_SAMPLES: i64 = 30_000;
const TIMEOUT_SECONDS: i64 = 10;

/// Characters of a log server's host and port.
const LONGEST_ADDRESS: usize = 300;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedSettings {
    pub configuration: DeviceConfiguration,
    /// What is not in it, in order.
    pub problems: Vec<Problem>,
    /// Something was not read yet: what is here is less than what there will be.
    pub unread: bool,
}

/// From what counts for the device, see [`effective`](super::effective), and the bucket that was claimed for it.
pub fn render(
    namespace: &str,
    settings: &Settings,
    bucket: Option<&Bucket>,
    material: &dyn Material,
) -> RenderedSettings {
    let mut reader = Reader::new(namespace, material);
    let configuration = DeviceConfiguration {
        heartbeat: Some(heartbeat(settings)),
        storage: storage::render(settings, bucket, &mut reader),
        metrics: Some(metrics(settings.metrics.as_ref(), &mut reader)),
        os: settings.os_information.as_ref().map(os),
        log_collection: logs(settings, &mut reader),
        ansible_manager: None,
        mounts: settings.mounts.iter().flatten().map(mount).collect(),
    };
    let (problems, unread) = reader.into_parts();
    RenderedSettings { configuration, problems, unread }
}

/// Seconds between two heartbeats of a device.
pub fn heartbeat_period(settings: &Settings) -> i64 {
    let said = settings.heartbeat.as_ref().and_then(|heartbeat| heartbeat.period_seconds);
    said.filter(|seconds| *seconds > 0).unwrap_or(HEARTBEAT_PERIOD)
}

fn heartbeat(settings: &Settings) -> HeartbeatConfiguration {
    let said = settings.heartbeat.as_ref().and_then(|heartbeat| heartbeat.hardware_profile.clone());
    let said = said.unwrap_or_default();
    HeartbeatConfiguration {
        period_seconds: heartbeat_period(settings),
        hardware_profile: Some(HardwareProfile {
            include: said.include.unwrap_or_default(),
            scope: said.scope.unwrap_or_default(),
        }),
    }
}

fn os(said: &edge::OsInformation) -> OsInformation {
    OsInformation {
        commit_id: said.commit_id.clone().unwrap_or_default(),
        hosted_objects_url: said.hosted_objects_url.clone().unwrap_or_default(),
        automatically_upgrade: said.automatically_upgrade.unwrap_or_default(),
    }
}

fn mount(said: &edge::Mount) -> Mount {
    let said = said.clone();
    Mount {
        device: said.device.unwrap_or_default(),
        directory: said.directory.unwrap_or_default(),
        type_: said.type_.unwrap_or_default(),
        options: said.options.unwrap_or_default(),
    }
}

fn metrics(said: Option<&edge::DeviceMetrics>, reader: &mut Reader<'_>) -> DeviceMetrics {
    let part = |part: &Option<edge::ComponentMetrics>, path: &str, reader: &mut Reader<'_>| {
        part.as_ref().map(|part| component(part, path, reader))
    };
    let retention = said.and_then(|said| said.retention.as_ref());
    DeviceMetrics {
        retention: retention.map(|said| MetricsRetention {
            max_mib: said.max_mib.unwrap_or_default(),
            max_hours: said.max_hours.unwrap_or_default(),
        }),
        system: said.and_then(|said| part(&said.system, "metrics.system", reader)),
        data_transfer: said
            .and_then(|said| part(&said.data_transfer, "metrics.dataTransfer", reader)),
        receiver: Some(receiver(
            said.and_then(|said| said.receiver_configuration.as_ref()),
            reader,
        )),
    }
}

/// Without its allow list it is still measured, or still not: then the list that is built into the agent counts.
fn component(
    said: &edge::ComponentMetrics,
    path: &str,
    reader: &mut Reader<'_>,
) -> ComponentMetrics {
    let list = name(said.allow_list.as_ref());
    ComponentMetrics {
        interval: said.interval.filter(|seconds| *seconds > 0).unwrap_or(METRICS_INTERVAL),
        allow_list: list.and_then(|list| reader.allow_list(list, &format!("{path}.allowList"))),
        disabled: said.disabled.unwrap_or_default(),
    }
}

/// The Secret with the CA of a receiver. Only an encrypted connection needs one.
pub(super) fn ca_secret(receiver: &edge::MetricsReceiver) -> Option<&str> {
    let secret = receiver.ca_secret_name.as_deref().filter(|name| !name.is_empty())?;
    receiver.url.as_ref()?.starts_with("https").then_some(secret)
}

/// No address means that nothing is sent: also where the CA that would prove the receiver cannot be had.
fn receiver(said: Option<&edge::MetricsReceiver>, reader: &mut Reader<'_>) -> MetricsReceiver {
    let positive = |number: Option<i64>| number.filter(|number| *number > 0);
    let mut receiver = MetricsReceiver {
        url: String::new(),
        timeout_seconds: positive(said.and_then(|said| said.timeout_seconds))
            .unwrap_or(TIMEOUT_SECONDS),
        request_num_samples: positive(said.and_then(|said| said.request_num_samples))
            .unwrap_or(REQUEST_NUM_SAMPLES),
        ca_cert: String::new(),
    };
    let Some(said) = said else { return receiver };
    let path = "metrics.receiverConfiguration.caSecretName";
    let secret = ca_secret(said);
    let wanted = secret.map(|secret| Reference::new(Kind::Secret, secret, Some("ca.crt"), path));
    match wanted.map(|wanted| reader.secret_text(&wanted)) {
        Some(None) => return receiver,
        Some(Some(ca)) => receiver.ca_cert = ca,
        None => {}
    }
    receiver.url = said.url.clone().unwrap_or_default();
    receiver
}

fn logs(settings: &Settings, reader: &mut Reader<'_>) -> BTreeMap<String, LogCollection> {
    let mut logs = BTreeMap::new();
    for (key, said) in settings.log_collection.iter().flatten() {
        let kind = said.kind.clone().filter(|kind| !kind.is_empty());
        let mut log = LogCollection {
            kind: kind.unwrap_or_else(|| SYSLOG.to_owned()),
            buffer_size: said.buffer_size.filter(|size| *size > 0).unwrap_or(BUFFER_SIZE),
            syslog_config: None,
        };
        if let Some(config_map) = name(said.syslog_config.as_ref()) {
            let path = format!("logCollection.{}.syslogConfig", shown(key));
            let Some(syslog) = syslog(config_map, path, reader) else { continue };
            log.syslog_config = Some(syslog);
        }
        logs.insert(key.clone(), log);
    }
    logs
}

fn syslog(config_map: &str, path: String, reader: &mut Reader<'_>) -> Option<SyslogConfig> {
    let address = Reference::new(Kind::ConfigMap, config_map, Some("Address"), path);
    let protocol = Reference { key: Some("Protocol"), optional: true, ..address.clone() };
    let found = reader.text(&address)?;
    if found.len() > LONGEST_ADDRESS {
        reader.unusable(&address, "is no host and port");
        return None;
    }
    let said = reader.text(&protocol).unwrap_or_else(|| "tcp".to_owned());
    if !["tcp", "udp"].contains(&said.as_str()) {
        reader.unusable(&protocol, "is neither tcp nor udp");
        return None;
    }
    Some(SyslogConfig { address: found, protocol: said })
}

#[cfg(test)]
mod tests;
