//! The steps of a plan, each as one write. Nothing is sent twice: whatever is not known about a write is seen at the next
//! look.

use std::collections::BTreeMap;

use flashjob_plan::edge::certificates::{
    CA_SECRET, COMMAND, Found, MESSAGE, REGISTRATION_SECRET, SERVER_SECRET, Step,
};
use k8s_openapi::api::core::v1 as core;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::keeper::{Keeper, Seen};
use super::make::{self, Data};
use super::secret::{Authority, Secret};
use crate::engine::write;
use crate::process::client::error_message;

impl Keeper {
    /// One write.
    pub(super) async fn perform(&self, step: &Step, seen: &Seen) -> Result<Written, String> {
        let made = |made: Result<Data, flashjob_pki::Error>| made.map_err(|e| e.to_string());
        match step {
            Step::MakeCa(life) => {
                self.create(CA_SECRET, &BTreeMap::new(), made(make::authority(*life))?).await
            }
            Step::MakeServer { life, names } => {
                let data = made(make::server(self.authority()?, *life, names))?;
                match &seen.server {
                    Found::Read(server) => {
                        self.change(&server.secret, json!({ "data": data })).await
                    }
                    _ => self.create(SERVER_SECRET, &BTreeMap::new(), data).await,
                }
            }
            Step::MakeRegistration(life) => {
                let data = made(make::registration(self.authority()?, *life))?;
                let random = make::random_name().map_err(|error| error.to_string())?;
                let labels = [(REGISTRATION_SECRET.to_owned(), "true".to_owned())].into();
                self.create(&format!("{REGISTRATION_SECRET}-{random}"), &labels, data).await
            }
            Step::PutBackCa => self.put_back(self.authority.as_ref().map(|k| &k.secret)).await,
            Step::PutBackServer => self.put_back(self.server.as_ref().map(|k| &k.secret)).await,
            Step::PutBackRegistration => {
                self.put_back(self.registration.as_ref().map(|k| &k.secret)).await
            }
            Step::DeleteExpiredRegistration(name) => self.delete(name, seen).await,
            Step::Rotate { life, cross, message } => {
                let data = made(make::successor(self.authority()?, *life, *cross))?;
                self.answer(seen, json!(data), message).await
            }
            Step::Retire { message } => {
                // The cross certificate stays: agents of the original trust the CA that they were delivered with for ever.
                let gone = json!({ "previous.crt": null });
                self.answer(seen, gone, message).await
            }
            Step::Answer { message } => self.answer(seen, json!({}), message).await,
        }
    }

    fn authority(&self) -> Result<&Authority, String> {
        let kept = self.authority.as_ref().ok_or("there is no CA to sign with")?;
        Ok(&kept.read)
    }

    /// Carries out a command, or not, and says what came of it, in one write.
    async fn answer(&self, seen: &Seen, data: Value, message: &str) -> Result<Written, String> {
        let Found::Read(authority) = &seen.authority else { return Ok(Written::Overtaken) };
        let annotations = json!({ COMMAND: null, MESSAGE: message });
        let change = json!({ "metadata": { "annotations": annotations }, "data": data });
        let written = self.change(&authority.secret, change).await?;
        tracing::info!("Secret {CA_SECRET}: {message}");
        Ok(written)
    }

    async fn create(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        data: Data,
    ) -> Result<Written, String> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some(labels.clone()).filter(|labels| !labels.is_empty()),
            ..ObjectMeta::default()
        };
        let secret = core::Secret { metadata, data: Some(data), ..core::Secret::default() };
        let api: Api<core::Secret> = Api::namespaced(self.caller.client.clone(), &self.namespace);
        let created = self.caller.call(api.create(&PostParams::default(), &secret)).await;
        written(name, "made", created.map(drop))
    }

    async fn put_back(&self, secret: Option<&Secret>) -> Result<Written, String> {
        let Some(secret) = secret else { return Ok(Written::Overtaken) };
        let data = secret.data.clone().unwrap_or_default();
        self.create(&secret.name_any(), secret.labels(), data).await
    }

    async fn change(&self, secret: &Secret, change: Value) -> Result<Written, String> {
        let version = secret.resource_version().unwrap_or_default();
        let patched = write::patch::<Secret>(&self.caller, secret.id(), &version, change).await;
        written(&secret.name_any(), "changed", patched.map(drop))
    }

    async fn delete(&self, name: &str, seen: &Seen) -> Result<Written, String> {
        let mut all = seen.registrations.iter();
        let Some((_, Found::Read(kept))) = all.find(|(secret, _)| secret == name) else {
            return Ok(Written::Overtaken);
        };
        let deleted = write::delete::<core::Secret>(&self.caller, kept.secret.id()).await;
        written(name, "deleted", deleted)
    }
}

pub enum Written {
    Done,
    /// It was not as it was seen any more.
    Overtaken,
}

fn written(name: &str, what: &str, answer: kube::Result<()>) -> Result<Written, String> {
    match answer {
        Ok(()) => {
            tracing::info!("Secret {name} was {what}");
            Ok(Written::Done)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Written::Overtaken),
        Err(error) => Err(format!("Secret {name} cannot be {what}: {}", error_message(&error))),
    }
}
