//! Ports of a device that two containers want. Nobody else looks: on the device the second of them does not start.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::edge::workloads::Accepted;

/// A port that the containers of these workloads want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    pub port: u64,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// By name. One whose own containers want it twice is there once.
    pub workloads: Vec<String>,
}

/// In the order of ports.
pub(super) fn collisions(workloads: &[Arc<Accepted>]) -> Vec<Collision> {
    let mut wanted: BTreeMap<(u64, String), Vec<(&str, &str)>> = BTreeMap::new();
    for workload in workloads {
        for (port, protocol, address) in ports(workload) {
            wanted.entry((port, protocol)).or_default().push((&workload.name, address));
        }
    }
    let collision = |((port, protocol), who): ((u64, String), Vec<(&str, &str)>)| {
        let meets = |at: usize| {
            let others = who.iter().enumerate().filter(move |(other, _)| *other != at);
            others.map(|(_, (_, address))| address).any(|other| overlap(who[at].1, other))
        };
        let who_meets = (0..who.len()).filter(|at| meets(*at)).map(|at| who[at].0.to_owned());
        let mut workloads: Vec<String> = who_meets.collect();
        workloads.dedup();
        (!workloads.is_empty()).then_some(Collision { port, protocol, workloads })
    };
    wanted.into_iter().filter_map(collision).collect()
}

/// Port, protocol and address of the device. Without a `hostPort` a port is the pod's own.
fn ports(workload: &Accepted) -> impl Iterator<Item = (u64, String, &str)> {
    let pod = workload.spec.pod.as_ref().and_then(|pod| pod.spec.as_ref());
    let containers = pod.and_then(|pod| pod.get("containers")?.as_array());
    let ports = containers.into_iter().flatten().filter_map(|of| of["ports"].as_array()).flatten();
    ports.filter_map(|port| {
        let number = port["hostPort"].as_u64().filter(|number| *number > 0)?;
        let text = |field: &str| port[field].as_str().unwrap_or_default();
        let protocol = Some(text("protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
        Some((number, protocol.to_ascii_uppercase(), address(&port["hostIP"])))
    })
}

/// Empty is every address.
fn address(of: &Value) -> &str {
    of.as_str().filter(|address| !["0.0.0.0", "::"].contains(address)).unwrap_or_default()
}

fn overlap(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}
