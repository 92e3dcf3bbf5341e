//! What `edge plan` says of 200 random fleets is what then happens on a real API server with a real operator: which device is
//! told what, and what the status of each workload says.
//!
//! There are namespaces side by side, each with devices of its own, and in each of them one file comes after the other. A seed
//! stands for a namespace with all its files.

mod plan;
mod random;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::edge::wire::{DeviceConfigurationMessage, Message};
use flashjob_plan::edge::configuration::masked;
use flashjob_sim::PATIENCE;
use flashjob_sim::edge::{Device, DeviceOptions, Manner};
use futures::future::{join_all, try_join_all};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use self::plan::{Planned, Told, Trouble};
use self::random::{Key, RandomFleet, WORKLOADS, key};
use super::{EdgeCli, becomes};

const SEED: u64 = 20_261_119;
const NAMESPACES: u64 = 20;
const FILES: usize = 10;
const DEVICES: usize = 3;
/// Plays the namespace with this seed once more, alone.
const PLAY_AGAIN: &str = "FLEET_SEED";

/// Of two objects that are made in different seconds it is known which is the older.
const APART: Duration = Duration::from_millis(1_100);

#[expect(clippy::disallowed_methods)] // a test has no arguments
#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_for_200_random_fleets_is_what_then_happens() -> Result<()> {
    let one = std::env::var(PLAY_AGAIN).ok().map(|seed| seed.parse()).transpose()?;
    let seeds: Vec<u64> =
        one.map_or_else(|| (SEED..SEED + NAMESPACES).collect(), |seed| vec![seed]);
    let site = EdgeCli::new().await?;
    let namespaces = try_join_all(seeds.iter().map(|_| served_namespace(&site))).await?;
    let _operator =
        site.operator_with(&[&format!("--edge-namespaces={}", namespaces.join(","))], None).await?;
    let played = seeds.iter().zip(&namespaces).enumerate().map(async |(at, (seed, namespace))| {
        let played = async { Lane::new(&site, namespace, at, *seed).await?.play().await };
        let how = || {
            format!("seed {seed}; once more: {PLAY_AGAIN}={seed} cargo test -p flashjob-cli --test cli -- edge::fleets")
        };
        played.await.with_context(how)
    });
    let mut seen = Seen::default();
    let mut failed = Vec::new();
    for played in join_all(played).await {
        match played {
            Ok(saw) => seen.add(&saw),
            Err(error) => failed.push(format!("{error:?}")),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    if one.is_none() {
        assert_eq!(seen.files, 200);
        seen.assert_nothing_is_missing();
    }
    Ok(())
}

/// How often there was something to foresee.
#[derive(Debug, Default)]
struct Seen {
    files: usize,
    came: usize,
    went: usize,
    changed: usize,
    other_settings: usize,
    left_out: usize,
    held: usize,
    refused: usize,
    conflicts: usize,
    missing: usize,
}

impl Seen {
    fn all(&mut self) -> [&mut usize; 10] {
        let Self {
            files,
            came,
            went,
            changed,
            other_settings,
            left_out,
            held,
            refused,
            conflicts,
            missing,
        } = self;
        [files, came, went, changed, other_settings, left_out, held, refused, conflicts, missing]
    }

    fn add(&mut self, other: &Self) {
        let mut other = Self { ..*other };
        for (sum, more) in self.all().into_iter().zip(other.all()) {
            *sum += *more;
        }
    }

    fn count(&mut self, planned: &Planned) {
        self.files += 1;
        for device in &planned.devices {
            self.came += usize::from(device.after.iter().any(|name| !device.before.contains(name)));
            self.went += usize::from(device.before.iter().any(|name| !device.after.contains(name)));
            self.changed += usize::from(!device.changed.is_empty());
            self.other_settings += usize::from(device.other_settings);
        }
        self.left_out += DEVICES - planned.devices.len();
        self.missing += planned.missing.len();
        let conflicts = planned.refused.iter().filter(|of| of.reason == "NameConflict").count();
        self.conflicts += conflicts;
        self.refused += planned.refused.len() - conflicts;
    }

    /// Dice that show only some of their sides prove nothing.
    fn assert_nothing_is_missing(&mut self) {
        let enough = self.all().into_iter().all(|times| *times >= 10);
        assert!(enough, "{self:?}");
    }
}

/// A namespace in which the operator looks after devices.
async fn served_namespace(site: &EdgeCli) -> Result<String> {
    let namespace = site.cluster.namespace("fleet").await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "flotta-edge-api-devices" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flotta-edge-api-devices" },
        "subjects": [{ "kind": "ServiceAccount", "name": "flotta-edge-api", "namespace": site.home }],
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "there" }, "stringData": { "p": "hunter2" },
    });
    let log = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "log" },
        "data": { "Address": "127.0.0.1:514" },
    });
    for object in [binding, secret, log] {
        site.cluster.apply_yaml_in(&namespace, &object.to_string()).await?;
    }
    Ok(namespace)
}

/// A namespace with its devices.
struct Lane<'a> {
    site: &'a EdgeCli,
    namespace: &'a str,
    devices: Vec<Device>,
    fleet: RandomFleet,
    /// When something was applied last.
    applied: Instant,
    seen: Seen,
}

impl<'a> Lane<'a> {
    async fn new(site: &'a EdgeCli, namespace: &'a str, at: usize, seed: u64) -> Result<Self> {
        let mut devices = Vec::new();
        for n in 0..DEVICES {
            let options = site.options(format!("d{at}-{n}"), Manner::Flotta).await?;
            let deadline = Duration::from_secs(20);
            let target_namespace = namespace.to_owned();
            let device = Device::new(DeviceOptions { target_namespace, deadline, ..options })?;
            becomes("it to enrol", 208, async || device.enrol().await).await?;
            becomes("it to register", 200, async || device.register().await).await?;
            becomes("it to beat", 200, async || device.heartbeat().await).await?;
            devices.push(device);
        }
        let names = devices.iter().map(|device| device.id().to_owned()).collect();
        let (fleet, applied, seen) =
            (RandomFleet::new(seed, names), Instant::now(), Seen::default());
        Ok(Self { site, namespace, devices, fleet, applied, seen })
    }

    async fn play(mut self) -> Result<Seen> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("file.yaml");
        for n in 0..FILES {
            self.prepare().await.with_context(|| format!("before file {n}"))?;
            let file = self.fleet.file();
            self.file(&file, &path).await.with_context(|| {
                let documents: Vec<_> = file.iter().map(ToString::to_string).collect();
                format!("file {n}:\n{}", documents.join("\n---\n"))
            })?;
        }
        Ok(self.seen)
    }

    fn objects(&self, kind: &str) -> Api<DynamicObject> {
        let plural = format!("{}s", kind.to_ascii_lowercase());
        let kind = GroupVersionKind::gvk("management.project-flotta.io", "v1alpha1", kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
        Api::namespaced_with(self.site.client.clone(), self.namespace, &resource)
    }

    async fn prepare(&mut self) -> Result<()> {
        let steps = self.fleet.steps();
        for (kind, name) in &steps.delete {
            self.objects(kind).delete(name, &DeleteParams::default()).await?;
        }
        for (device, labels) in &steps.label {
            let change = Patch::Merge(json!({ "metadata": { "labels": labels } }));
            self.objects("EdgeDevice").patch(device, &PatchParams::default(), &change).await?;
        }
        for device in self.devices.iter().filter(|d| steps.other_settings.contains(d.id())) {
            let rendered = self.run(&["render", device.id(), "-o", "json"]).await?;
            in_the_end(async || {
                let told = serde_json::to_value(masked(&told(device).await?))?;
                ensure!(told == rendered, "{} was to be told {rendered:#}: {told:#}", device.id());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Runs the program in this namespace, for JSON.
    async fn run(&self, args: &[&str]) -> Result<Value> {
        let ended = self.site.run_in(&self.site.kubeconfig, self.namespace, args).await;
        ensure!([0, 3].contains(&ended.code), "{ended:#?}");
        Ok(serde_json::from_str(&ended.out)?)
    }

    async fn plan(&self, file: &[Value], path: &Path) -> Result<Planned> {
        let documents: Vec<String> = file.iter().map(ToString::to_string).collect();
        std::fs::write(path, documents.join("\n---\n"))?;
        let planned = self.run(&["plan", "-o", "json", "-f", &path.to_string_lossy()]).await?;
        let planned: Planned = serde_json::from_value(planned)?;
        ensure!(planned.unknown.is_empty(), "{planned:#?}");
        let here = |namespace: &String| namespace == self.namespace;
        ensure!(planned.devices.iter().all(|device| here(&device.namespace)), "{planned:#?}");
        let troubles = planned.refused.iter().chain(&planned.missing);
        ensure!(troubles.into_iter().all(|trouble| here(&trouble.namespace)), "{planned:#?}");
        Ok(planned)
    }

    /// What each device is told when all that is there has come to it: what the plan says that it runs.
    async fn before(&self, planned: &Planned, path: &Path) -> Result<BTreeMap<String, Told>> {
        let everybody = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeWorkload",
            "metadata": { "name": "everybody" },
            "spec": { "deviceSelector": {}, "pod": { "spec": { "containers": [{ "name": "c", "image": "i" }] } } },
        });
        // Whom the file is not for, it says nothing of.
        let others = match planned.devices.len() {
            DEVICES => None,
            _ => Some(self.plan(&[everybody], path).await?),
        };
        let mut before = BTreeMap::new();
        for device in &self.devices {
            let id = device.id();
            let planned = planned.device(id).or(others.as_ref().and_then(|all| all.device(id)));
            let wanted = &planned.with_context(|| format!("no plan has {id}"))?.before;
            let told = in_the_end(async || {
                let told = Told::new(&told(device).await?)?;
                ensure!(told.names() == *wanted, "{id} was to run {wanted:?} before: {told:#?}");
                Ok(told)
            });
            before.insert(id.to_owned(), told.await?);
        }
        Ok(before)
    }

    async fn file(&mut self, file: &[Value], path: &Path) -> Result<()> {
        let planned = self.plan(file, path).await?;
        let before = self.before(&planned, path).await?;
        sleep_until(self.applied + APART).await;
        for object in file {
            // The operator may have written the status in between.
            in_the_end(async || self.put(object).await).await?;
        }
        self.applied = Instant::now();
        let what_was_said = || format!("{planned:#?}");
        for object in file.iter().filter(|object| object["kind"] != "Secret") {
            self.says(object, &planned).await.with_context(what_was_said)?;
        }
        for device in &self.devices {
            let held = self.is_told(device, &before[device.id()], &planned).await;
            self.seen.held += usize::from(held.with_context(what_was_said)?);
        }
        self.seen.count(&planned);
        self.fleet.applied(file, &planned);
        Ok(())
    }

    /// Waits until a device is told what was planned for it. Whether it keeps what it has.
    async fn is_told(&self, device: &Device, before: &Told, planned: &Planned) -> Result<bool> {
        in_the_end(async || {
            let after = Told::new(&told(device).await?)?;
            let is_so = planned.is_so(device.id(), before, &after);
            is_so.with_context(|| format!("{}: {before:#?} {after:#?}", device.id()))
        })
        .await
    }

    /// Waits until the status of a workload says what was planned of it.
    async fn says(&self, object: &Value, planned: &Planned) -> Result<()> {
        let key = key(object);
        if !WORKLOADS.contains(&key.0.as_str()) {
            return Ok(());
        }
        let objects = self.objects(&key.0);
        in_the_end(async || {
            let found = serde_json::to_value(objects.get(&key.1).await?)?;
            agree(&key, &found, planned).with_context(|| format!("{key:?}: {:#}", found["status"]))
        })
        .await
    }

    /// As `kubectl replace` does it, or `kubectl create`: nothing is left of what the object said before.
    async fn put(&self, object: &Value) -> Result<()> {
        let (kind, name) = key(object);
        if kind == "Secret" {
            return self.site.cluster.apply_yaml_in(self.namespace, &object.to_string()).await;
        }
        let (objects, params) = (self.objects(&kind), PostParams::default());
        let mut object: DynamicObject = serde_json::from_value(object.clone())?;
        match objects.get_opt(&name).await? {
            Some(there) => {
                object.metadata.resource_version = there.metadata.resource_version;
                objects.replace(&name, &params, &object).await?;
            }
            None => drop(objects.create(&params, &object).await?),
        }
        Ok(())
    }
}

/// Tries until it is well, or it has not been for so long that it never will be.
async fn in_the_end<T>(attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Err(_) if Instant::now() < end => sleep(Duration::from_millis(100)).await,
            ended => return ended,
        }
    }
}

/// Whether the status of a workload says what was planned.
fn agree((kind, name): &Key, found: &Value, planned: &Planned) -> Result<()> {
    let status = &found["status"];
    ensure!(
        status["observedGeneration"] == found["metadata"]["generation"],
        "the status is an older one"
    );
    let condition = |type_: &str| {
        let all = status["conditions"].as_array().into_iter().flatten();
        all.into_iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
    };
    let of_it = |trouble: &&Trouble| trouble.kind == *kind && trouble.name == *name;
    let (accepted, complete) = (condition("Accepted"), condition("Complete"));
    if let Some(Trouble { reason, message, .. }) = planned.refused.iter().find(of_it) {
        let is_so = accepted["status"] == "False" && accepted["reason"] == **reason;
        ensure!(is_so && accepted["message"] == **message, "it was to be refused");
        return Ok(());
    }
    ensure!(accepted["status"] == "True", "it was to be accepted");
    let runs = planned.devices.iter().filter(|device| device.after.contains(name)).count();
    ensure!(status["counts"]["matched"] == runs, "it was to be for {runs} devices");
    let said = status["message"].as_str().unwrap_or_default();
    match planned.missing.iter().find(of_it).filter(|_| runs > 0) {
        Some(Trouble { reason, message, .. }) => {
            let is_so =
                complete["reason"] == **reason && said.contains(&format!("{reason}: {message}"));
            ensure!(is_so, "it was to lack something");
        }
        None => ensure!(!said.contains("cannot be sent"), "it was to lack nothing"),
    }
    Ok(())
}

/// What a device is told. Flotta's agents are told all of it each time.
async fn told(device: &Device) -> Result<DeviceConfigurationMessage> {
    let answer = device.fetch_configuration().await?;
    ensure!(answer.code() == 200, "{}: {answer:?}", device.id());
    Ok(serde_json::from_value(answer.json::<Message>()?.content)?)
}
