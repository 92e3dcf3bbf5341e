//! One write for a device, and what is there afterwards: if the answer was lost or is no, a live read tells.

use std::collections::BTreeMap;

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, SignedRequestFacts};
use flashjob_plan::edge::finalizers::FINALIZER;
use flashjob_plan::edge::keys;
use flashjob_plan::edge::labels;
use flashjob_plan::edge::request::{DevicePatch, NewDevice};
use flashjob_plan::edge::workloads::{WorkloadFacts, WorkloadKind};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use super::input::{There, WriteError, Written};
use super::observe::{self, SeenWorkload};
use super::slim;
use crate::engine::pool::Caller;
use crate::engine::slim::Slim;
use crate::engine::write::ObjectId;
use crate::engine::{read, status, write};
use crate::process::client::error_message;

/// What is to become of a device's status.
pub struct DeviceStatusWrite {
    /// All but the hardware, as it is and as it is to be; null if there is no status.
    pub before: Value,
    pub after: Value,
    /// What the device says of it: all, or what has changed.
    pub hardware: Option<Hardware>,
}

impl DeviceStatusWrite {
    fn patch(&self, uid: &str, has_hardware: bool) -> Value {
        let mut patch = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
        let none = Map::new();
        let fields = |status: &'_ Value| status.as_object().cloned().unwrap_or_default();
        let (before, mut after) = (self.before.as_object().unwrap_or(&none), fields(&self.after));
        let hardware = fields(&json!(self.hardware));
        if self.before.is_null() {
            if self.hardware.is_some() {
                after.insert("hardware".into(), hardware.into());
            }
            patch.push(json!({ "op": "add", "path": "/status", "value": after }));
            return patch.into();
        }
        for (field, value) in
            after.iter().filter(|(field, value)| before.get(*field) != Some(*value))
        {
            patch.push(json!({ "op": "add", "path": format!("/status/{field}"), "value": value }));
        }
        for gone in before.keys().filter(|field| !after.contains_key(*field)) {
            patch.push(json!({ "op": "remove", "path": format!("/status/{}", pointer(gone)) }));
        }
        if has_hardware {
            for (field, value) in hardware {
                let path = format!("/status/hardware/{field}");
                patch.push(json!({ "op": "add", "path": path, "value": value }));
            }
        } else if self.hardware.is_some() {
            patch.push(json!({ "op": "add", "path": "/status/hardware", "value": hardware }));
        }
        patch.into()
    }
}

/// Anybody may have named it.
fn pointer(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

/// What is to become of a workload.
pub enum WorkloadWrite {
    Status(Value),
    Finalizers(Vec<String>),
}

/// A write for one device.
pub struct Write {
    pub caller: Caller,
    /// The device's.
    pub name: String,
    /// Of the object.
    pub namespace: String,
    pub now: Timestamp,
}

impl Write {
    pub async fn create_device(self, new: NewDevice) -> Written {
        let mut labels = new.labels;
        labels.insert(labels::UNCLAIMED.to_owned(), "true".to_owned());
        labels.extend(new.set.map(|set| (labels::SET.to_owned(), set)));
        let annotations: BTreeMap<_, _> =
            new.keys.map(|keys| (keys::ANNOTATION, keys.write())).into_iter().collect();
        let object = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1",
            "kind": "EdgeDevice",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": labels, "annotations": annotations, "finalizers": [FINALIZER],
            },
            "spec": { "requestTime": seconds(self.now) },
        });
        let created = self.create::<slim::EdgeDevice>(&object).await;
        self.device(created, false).await
    }

    pub async fn patch_device(self, device: &EdgeDeviceFacts, patch: DevicePatch) -> Written {
        let mut metadata = Map::new();
        if let Some(keys) = patch.keys {
            metadata.insert("annotations".into(), json!({ (keys::ANNOTATION): keys.write() }));
        }
        let mut labels: Map<_, _> =
            patch.labels.into_iter().map(|(label, value)| (label, json!(value))).collect();
        if patch.claimed {
            labels.insert(labels::UNCLAIMED.to_owned(), Value::Null);
        }
        if !labels.is_empty() {
            metadata.insert("labels".into(), labels.into());
        }
        if let Some(finalizers) = patch.finalizers {
            metadata.insert("finalizers".into(), json!(finalizers));
        }
        let (change, version) =
            (json!({ "metadata": metadata }), device.resource_version.to_string());
        let patched =
            write::patch::<slim::EdgeDevice>(&self.caller, self.id(&device.uid), &version, change);
        let patched = patched.await;
        let mut written = self.device(patched, false).await;
        if let There::Device(_, Some(found)) = &written.there
            && found.uid == device.uid
            && found.resource_version < device.resource_version
            && let Some(error) = &mut written.error
        {
            error.went_back = Some(device.resource_version);
        }
        written
    }

    pub async fn hardware(self, device: &EdgeDeviceFacts, hardware: &Hardware) -> Written {
        let add = if device.status.is_there {
            json!({ "op": "add", "path": "/status/hardware", "value": hardware })
        } else {
            json!({ "op": "add", "path": "/status", "value": { "hardware": hardware } })
        };
        let test = json!({ "op": "test", "path": "/metadata/uid", "value": device.uid });
        let patch = json!([test, add]);
        let patched = status::write(&self.caller, &self.namespace, &self.name, patch).await;
        self.device(patched, true).await
    }

    /// Writes what is different in the status of a device, each field by itself: nobody's edit of the spec is in its way.
    pub async fn device_status(
        self,
        device: &EdgeDeviceFacts,
        write: DeviceStatusWrite,
    ) -> Written {
        let patch = write.patch(&device.uid, device.status.hardware.is_some());
        let patched = status::write(&self.caller, &self.namespace, &self.name, patch).await;
        self.device(patched, false).await
    }

    /// Writes to a workload. `None`: it is gone by now. The error is a sentence.
    pub async fn workload(
        self,
        workload: &WorkloadFacts,
        write: WorkloadWrite,
    ) -> Result<Option<Box<SeenWorkload>>, String> {
        match workload.kind {
            WorkloadKind::EdgeDeployment => {
                self.workload_of::<slim::EdgeDeployment>(workload, write).await
            }
            WorkloadKind::EdgeWorkload => {
                self.workload_of::<slim::EdgeWorkload>(workload, write).await
            }
        }
    }

    async fn workload_of<K: Slim + slim::Open>(
        &self,
        workload: &WorkloadFacts,
        write: WorkloadWrite,
    ) -> Result<Option<Box<SeenWorkload>>, String> {
        let written: kube::Result<K> = match write {
            WorkloadWrite::Status(value) => {
                let test = json!({ "op": "test", "path": "/metadata/uid", "value": workload.uid });
                let add = json!({ "op": "add", "path": "/status", "value": value });
                status::write(&self.caller, &self.namespace, &self.name, json!([test, add])).await
            }
            WorkloadWrite::Finalizers(finalizers) => {
                let change = json!({ "metadata": { "finalizers": finalizers } });
                let version = workload.resource_version.to_string();
                write::patch(&self.caller, self.id(&workload.uid), &version, change).await
            }
        };
        match written {
            Ok(object) => Ok(Some(Box::new(observe::workload(workload.kind, &object)))),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error_message(&error)),
        }
    }

    pub async fn create_request(
        self,
        target: &str,
        hardware: Option<Hardware>,
        model: Option<String>,
    ) -> Written {
        let object = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1",
            "kind": "EdgeDeviceSignedRequest",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": {
                "targetNamespace": target,
                "approved": false,
                "features": { "modelName": model, "hardware": hardware },
            },
        });
        let created = self.create::<slim::SignedRequest>(&object).await;
        self.request(created).await
    }

    pub async fn request_status(
        self,
        request: &SignedRequestFacts,
        phase: &str,
        message: &str,
    ) -> Written {
        let condition = json!({
            "type": phase, "status": "True", "message": message,
            "lastTransitionTime": seconds(self.now),
        });
        let change = json!({
            "metadata": { "uid": request.uid },
            "status": { "phase": phase, "conditions": [condition] },
        });
        let api = self.api::<slim::SignedRequest>();
        let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
        let patched = self.caller.call(api.patch_status(&self.name, &params, &patch)).await;
        self.request(patched).await
    }

    pub async fn delete_request(self, request: &SignedRequestFacts) -> Written {
        let deleted =
            write::delete::<slim::SignedRequest>(&self.caller, self.id(&request.uid)).await;
        match deleted {
            Ok(()) => {
                let found = self.live::<slim::SignedRequest>().await;
                let found = found.map(|object| observe::signed_request(&object).1);
                Written { there: There::Request(found), error: None }
            }
            Err(error) => self.request(Err(error)).await,
        }
    }

    fn api<K: Slim>(&self) -> Api<K> {
        Api::namespaced(self.caller.client.clone(), &self.namespace)
    }

    /// What is there now.
    async fn live<K: Slim>(&self) -> Option<K> {
        read::live(&self.caller, &self.api(), &self.name).await
    }

    fn id<'a>(&'a self, uid: &'a str) -> ObjectId<'a> {
        ObjectId { namespace: &self.namespace, name: &self.name, uid }
    }

    async fn create<K: Slim>(&self, object: &Value) -> kube::Result<K> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = kube::core::Request::new(self.api::<K>().resource_url());
        let request = request.create(&PostParams::default(), body);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.caller.call(self.caller.client.request(request)).await
    }

    async fn device(self, answer: kube::Result<slim::EdgeDevice>, hardware: bool) -> Written {
        let (found, error) = match answer {
            Ok(object) => (Some(object), None),
            Err(error) => (self.live().await, Some(WriteError::of(&error, hardware))),
        };
        // Without a finalizer it goes with this very write, and the watch may have said so already.
        let gone = |facts: &EdgeDeviceFacts| facts.being_deleted && facts.finalizers.is_empty();
        let found = found.map(|object| observe::device(&object).1).filter(|facts| !gone(facts));
        Written { there: There::Device(self.namespace, found.map(Box::new)), error }
    }

    async fn request(self, answer: kube::Result<slim::SignedRequest>) -> Written {
        let (found, error) = match answer {
            Ok(object) => (Some(object), None),
            Err(error) => (self.live().await, Some(WriteError::of(&error, false))),
        };
        let found = found.map(|object| observe::signed_request(&object).1);
        Written { there: There::Request(found), error }
    }
}

impl WriteError {
    fn of(error: &kube::Error, hardware: bool) -> Self {
        let conflict = matches!(error, kube::Error::Api(status) if status.code == 409);
        Self { message: error_message(error), conflict, went_back: None, hardware }
    }
}

/// Kubernetes' times have whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
