//! What a device writes, byte by byte as its agent does.
//!
//! Ours writes the types of the API. The original's is a Go program: every key is there in every message, what is empty is
//! null or `""`, times have nine digits, and a time that never was is in the year 1.

use anyhow::Result;
use bytes::Bytes;
use flashjob_api::edge::wire::{
    Agent, Cpu, Enrolment, Event, Features, HardwareInfo, Heartbeat, Interface, Message,
    MessageType, Mount, Registration, SystemVendor, UpgradeStatus, WorkloadStatus, directive,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::options::Manner;
use crate::SeededRng;

/// Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00.000Z";

/// The envelope as yggd writes it.
#[derive(Serialize)]
struct GoMessage<'a> {
    #[serde(rename = "type")]
    type_: MessageType,
    message_id: &'a str,
    response_to: &'a str,
    version: i64,
    sent: Timestamp,
    directive: &'a str,
    metadata: (),
    content: Value,
}

/// How a device is.
#[derive(Clone, Default)]
pub(super) struct Said {
    pub version: String,
    pub workloads: Vec<WorkloadStatus>,
    pub events: Vec<Event>,
    pub upgrade: UpgradeStatus,
    pub hardware: Option<HardwareInfo>,
}

/// Writes what one device says.
pub(super) struct Pen<'a> {
    pub manner: Manner,
    pub id: &'a str,
    pub message_id: String,
    pub now: Timestamp,
}

impl Pen<'_> {
    pub fn enrolment(&self, namespace: &str) -> Result<Bytes> {
        let content = match self.manner {
            Manner::Ours => serde_json::to_value(Enrolment {
                features: Some(Features {
                    model_name: String::new(),
                    hardware: Some(hardware(self.id)),
                }),
                target_namespace: namespace.to_owned(),
            })?,
            Manner::Flotta => json!({
                "features": {"modelName": "", "hardware": in_go(&hardware(self.id))?},
                "target_namespace": namespace,
            }),
        };
        self.message(MessageType::Data, directive::ENROLMENT, content)
    }

    pub fn registration(&self, certificate_request: String) -> Result<Bytes> {
        let content = match self.manner {
            Manner::Ours => serde_json::to_value(Registration {
                hardware: Some(hardware(self.id)),
                certificate_request,
            })?,
            Manner::Flotta => {
                json!({"certificate_request": certificate_request, "hardware": in_go(&hardware(self.id))?})
            }
        };
        self.message(MessageType::Data, directive::REGISTRATION, content)
    }

    pub fn heartbeat(&self, said: Said) -> Result<Bytes> {
        let Said { version, workloads, events, upgrade, hardware } = said;
        let content = match self.manner {
            Manner::Ours => serde_json::to_value(Heartbeat {
                status: "up".to_owned(),
                version,
                workloads,
                upgrade: Some(upgrade),
                events,
                hardware,
                agent: Some(Agent {
                    name: Agent::OURS.to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                ..Heartbeat::default()
            })?,
            Manner::Flotta => {
                let mut content = json!({
                    "status": "up",
                    "version": version,
                    "workloads": workloads.iter().map(workload_in_go).collect::<Vec<_>>(),
                    "playbook-executions": null,
                    "upgrade": upgrade,
                    "events": Some(events).filter(|events| !events.is_empty()),
                });
                if let Some(hardware) = hardware {
                    content["hardware"] = in_go(&hardware)?;
                }
                content
            }
        };
        self.message(MessageType::Data, directive::HEARTBEAT, content)
    }

    pub fn connection_status(&self) -> Result<Bytes> {
        let content = json!({
            "canonical_facts": {"machine_id": self.id, "fqdn": self.id},
            "dispatchers": {"device": {}},
            "state": "online",
            "tags": {},
        });
        self.message(MessageType::ConnectionStatus, "", content)
    }

    fn message(&self, type_: MessageType, directive: &str, content: Value) -> Result<Bytes> {
        let (message_id, version, sent) = (&self.message_id, Message::VERSION, self.now);
        let text = match self.manner {
            Manner::Flotta => {
                let (response_to, metadata) = ("", ());
                serde_json::to_vec(&GoMessage {
                    type_,
                    message_id,
                    response_to,
                    version,
                    sent,
                    directive,
                    metadata,
                    content,
                })
            }
            Manner::Ours => serde_json::to_vec(&Message {
                type_,
                message_id: message_id.clone(),
                version,
                sent: Some(sent),
                directive: directive.to_owned(),
                content,
                ..Message::default()
            }),
        };
        Ok(Bytes::from(text?))
    }
}

fn in_go(hardware: &HardwareInfo) -> Result<Value> {
    let mut value = serde_json::to_value(hardware)?;
    for missing in ["disks", "gpus"] {
        value[missing] = Value::Null;
    }
    Ok(value)
}

/// The original knows nothing of exit codes, messages and restarts.
fn workload_in_go(of: &WorkloadStatus) -> Value {
    let upload = of.last_data_upload.map_or_else(|| NEVER.to_owned(), |at| format!("{at:.3}"));
    json!({ "name": of.name, "status": of.status, "last_data_upload": upload })
}

/// What of it may change, which every heartbeat says again.
pub(super) fn mutable_hardware(id: &str) -> HardwareInfo {
    let HardwareInfo { hostname, interfaces, mounts, .. } = hardware(id);
    HardwareInfo { hostname, interfaces, mounts, ..HardwareInfo::default() }
}

/// The little that agents say of it.
pub fn hardware(id: &str) -> HardwareInfo {
    HardwareInfo {
        hostname: id.to_owned(),
        cpu: Some(Cpu {
            architecture: "x86_64".to_owned(),
            model_name: "Simulated CPU".to_owned(),
            ..Cpu::default()
        }),
        system_vendor: Some(SystemVendor {
            manufacturer: "flashjob".to_owned(),
            product_name: "sim".to_owned(),
            serial_number: id.to_owned(),
            is_virtual: true,
        }),
        interfaces: Some(vec![Interface {
            ipv4_addresses: vec!["127.0.0.1/8".to_owned()],
            ..Interface::default()
        }]),
        host_devices: Some(Vec::new()),
        mounts: Some(vec![Mount {
            device: "/dev/vda1".to_owned(),
            directory: "/".to_owned(),
            type_: "ext4".to_owned(),
            options: "rw".to_owned(),
        }]),
        ..HardwareInfo::default()
    }
}

/// A UUID of version 4.
pub(super) fn uuid(dice: &mut SeededRng) -> String {
    let (high, low) = (dice.next(), dice.next());
    let (version, variant) = (high & 0x0fff | 0x4000, low >> 48 & 0x3fff | 0x8000);
    let (first, second, last) = (high >> 32, high >> 16 & 0xffff, low & 0xffff_ffff_ffff);
    format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{last:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pen(manner: Manner) -> Pen<'static> {
        let now = Timestamp::constant(1_647_787_525, 271_000_001);
        Pen { manner, id: "edge1", message_id: uuid(&mut SeededRng::new(1)), now }
    }

    #[test]
    fn yggd_writes_every_key_in_its_order() {
        let said = Said { version: "54429".into(), ..Said::default() };
        let written = pen(Manner::Flotta).heartbeat(said).unwrap();
        let id = pen(Manner::Flotta).message_id;
        let wanted = format!(
            "{{\"type\":\"data\",\"message_id\":\"{id}\",\"response_to\":\"\",\"version\":1,\
             \"sent\":\"2022-03-20T14:45:25.271000001Z\",\"directive\":\"heartbeat\",\"metadata\":null,\"content\":"
        );
        let text = std::str::from_utf8(&written).unwrap();
        assert!(text.starts_with(&wanted), "{text}\n{wanted}");
        let all = [
            pen(Manner::Flotta).enrolment("default").unwrap(),
            pen(Manner::Flotta).registration("CSR".into()).unwrap(),
            pen(Manner::Flotta).connection_status().unwrap(),
            written,
        ];
        for message in all {
            let value: Value = serde_json::from_slice(&message).unwrap();
            assert_eq!(value.as_object().unwrap().len(), 8, "{value}");
        }
    }

    fn said() -> Said {
        let [name, status] = ["nginx", "Exited"].map(str::to_owned);
        let nginx = WorkloadStatus {
            name,
            status,
            last_data_upload: Some(Timestamp::constant(1_647_787_525, 271_000_000)),
            exit_code: Some(3),
            message: Some("no such image".into()),
            restarts: Some(2),
        };
        let other = WorkloadStatus { name: "other".into(), ..WorkloadStatus::default() };
        let event =
            Event { reason: "Failed".into(), message: "m".into(), type_: "warn".to_owned() };
        Said {
            version: "7".into(),
            workloads: vec![nginx, other],
            events: vec![event],
            hardware: Some(hardware("edge1")),
            ..Said::default()
        }
    }

    fn content(manner: Manner, said: Said) -> Value {
        let written = pen(manner).heartbeat(said).unwrap();
        serde_json::from_slice::<Value>(&written).unwrap()["content"].clone()
    }

    #[test]
    fn go_says_null_where_it_has_nothing_and_nothing_of_ours() {
        let said = Said { events: Vec::new(), ..said() };
        let content = content(Manner::Flotta, said);
        let keys = ["playbook-executions", "events"];
        assert!(keys.iter().all(|key| content.get(key) == Some(&Value::Null)), "{content}");
        let upload = "2022-03-20T14:45:25.271Z";
        let nginx = json!({ "name": "nginx", "status": "Exited", "last_data_upload": upload });
        assert_eq!(content["workloads"][0], nginx);
        assert_eq!(content["workloads"][1]["last_data_upload"], NEVER);
        assert_eq!(content["hardware"].get("disks"), Some(&Value::Null));
        assert_eq!(content.get("agent"), None);
    }

    #[test]
    fn both_manners_say_the_same_to_who_reads_them_but_for_what_is_ours() {
        let read = |manner| serde_json::from_value::<Heartbeat>(content(manner, said())).unwrap();
        let (theirs, mut ours) = (read(Manner::Flotta), read(Manner::Ours));
        assert_eq!(ours.agent.take().map(|agent| agent.name).as_deref(), Some(Agent::OURS));
        let nginx = &mut ours.workloads[0];
        let extras = (nginx.exit_code.take(), nginx.message.take(), nginx.restarts.take());
        assert_eq!(extras, (Some(3), Some("no such image".to_owned()), Some(2)));
        assert_eq!(theirs, ours);
    }

    #[test]
    fn ids_are_uuids() {
        let mut dice = SeededRng::new(3);
        let id = uuid(&mut dice);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]), "{id}");
        assert_ne!(uuid(&mut dice), id);
    }
}
