//! `kubectl flashjob plan`: what a job would do to each device, worked out by the crate the operator runs.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use flashjob_api::flashjob::{DeviceState, FlashJob};
use flashjob_plan::flashjob::allow_list::AllowList;
use flashjob_plan::flashjob::facts::{Job, Settings};
use flashjob_plan::flashjob::preview::{Fate, Foreseen, Other, locks, preview};
use flashjob_plan::flashjob::spec::{Invalid, Spec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::args::Connection;
use crate::clock;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::flashjob::args::PlanArgs;
use crate::flashjob::filter::Filter;
use crate::flashjob::flash;
use crate::flashjob::fleet::Fleet;
use crate::output::{Format, print_as};
use crate::read::Scope;
use crate::shell::{Shell, clean};
use crate::table::{or_dash, table};

/// The uid of a job that is not there yet.
const TO_BE: &str = "to be made";

pub async fn run(to: &Connection, wanted: PlanArgs, shell: &Shell) -> Result<Exit> {
    if wanted.filename.is_none() {
        if !wanted.all && !wanted.choice.is_given() {
            let flags = "--device, --app, --uuid, --selector, --all, or a job with -f";
            return Err(UsageError(format!("say which devices: {flags}")).into());
        }
        flash::complete(&wanted.options)?;
    }
    let filter = Filter::of(&wanted.choice, None, to.namespace.as_ref())?;
    let connected = to.open().await?;
    let scope = Scope::All(&connected.namespace);
    let fleet = Fleet::read(&connected.client, scope, "").await?;
    fleet.notes.iter().for_each(|note| shell.note(note));
    let job = match &wanted.filename {
        Some(file) => from_file(file, to, &connected.namespace)?,
        None => {
            let labelled = match &wanted.choice.selector {
                Some(labels) => Fleet::read(&connected.client, scope, labels).await?.instances,
                None => fleet.instances.clone(),
            };
            let (chosen, absent) = flash::by_flags(&filter, &labelled, &connected, shell)?;
            flash::compose(&chosen, &absent, &wanted.options, &connected.namespace)?
        }
    };
    let foreseen = foresee(&fleet, &job)?;
    shell.out(&print(&foreseen, wanted.output)?)?;
    shell.say(&sentence(&foreseen));
    if let Some(why) = needs_a_flag(&job)? {
        let why = clean(&why);
        shell.note(&format!("an operator that was started without flags refuses this job: {why}"));
    }
    if job.spec.suspend == Some(true) || job.spec.abort == Some(true) {
        shell.note("the job is held by spec.suspend or spec.abort: this is what it does once it is released");
    }
    Ok(Exit::Done)
}

/// The job in a file. Its namespace is the one it names, as with kubectl.
fn from_file(file: &Path, to: &Connection, own: &str) -> Result<FlashJob> {
    let text = files::manifest(file)?;
    let mut job: FlashJob = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow!("{} is not a FlashJob: {error}", file.display()))?;
    let named = job.metadata.namespace.get_or_insert_with(|| own.to_owned());
    if let Some(asked) = to.namespace.as_ref().filter(|asked| *asked != named) {
        bail!("the job is in namespace {named}, and -n says {asked}");
    }
    Ok(job)
}

/// What the job would do if it were made now.
pub fn foresee(fleet: &Fleet, job: &FlashJob) -> Result<Vec<Foreseen>> {
    let now = clock::now();
    let settings = settings();
    let mut metadata = job.metadata.clone();
    metadata.uid = Some(TO_BE.to_owned());
    metadata.generation = Some(1);
    metadata.creation_timestamp = Some(Time(now));
    let job = Job::read(&metadata, &serde_json::to_value(&job.spec)?, &settings);
    let instances = fleet.index();
    let others = fleet.jobs.iter().filter(|job| job.status.completion_time.is_none());
    let others = others.map(|other| {
        let at_work = other.status.in_flight.iter().filter(|device| {
            matches!(
                device.state,
                DeviceState::Addressing
                    | DeviceState::Starting
                    | DeviceState::Flashing
                    | DeviceState::Recording
            )
        });
        Other {
            job: Job::read(&other.metadata, &other.spec, &settings),
            ledger: fleet.ledgers.as_ref().and_then(|all| all.get(other.uid())),
            at_work: at_work
                .filter_map(|device| Some(device.host_endpoint.clone()?.into()))
                .collect(),
        }
    });
    let locks = locks(&job, others.collect(), &instances, &settings, now);
    preview(&job, &settings, &instances, &locks, now).map_err(|why| anyhow!("{why}"))
}

/// Those of an operator that allows everything; what it does allow is not known here.
pub fn settings() -> Settings {
    Settings {
        flashjob_image: Some("the-operators-own".to_owned()),
        allow_host_network: true,
        unsafe_pod_templates: true,
        service_annotations: AllowList::any(),
        ..Settings::default()
    }
}

/// Why an operator that was started without flags would refuse the job.
fn needs_a_flag(job: &FlashJob) -> Result<Option<String>> {
    let without = Settings { flashjob_image: settings().flashjob_image, ..Settings::default() };
    let refused = Spec::read(&serde_json::to_value(&job.spec)?, &without).err();
    Ok(refused.map(|Invalid(why)| why))
}

/// A device of the plan as `-o json` and `-o yaml` print it.
#[derive(Serialize)]
struct PlannedDevice<'a> {
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    fate: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
}

#[derive(Serialize)]
struct PlannedDevices<'a> {
    devices: Vec<PlannedDevice<'a>>,
}

pub fn print(foreseen: &[Foreseen], output: Format) -> Result<String> {
    let line = |device: &'_ Foreseen| -> [String; 4] {
        let batch = device.batch.map(|batch| batch.to_string()).unwrap_or_default();
        [clean(&device.device), or_dash(&batch), word(device.fate).to_owned(), clean(&device.why)]
    };
    let all = PlannedDevices {
        devices: foreseen
            .iter()
            .map(|d| PlannedDevice {
                device: &d.device,
                batch: d.batch,
                fate: word(d.fate),
                why: &d.why,
            })
            .collect(),
    };
    print_as(&all, output, |_| {
        let lines: Vec<_> = foreseen.iter().map(line).collect();
        table(["DEVICE", "BATCH", "FATE", "WHY"], &lines)
    })
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Flash => "flash",
        Fate::Skip => "skip",
        Fate::Refuse => "refuse",
        Fate::Blocked => "blocked",
        Fate::Offline => "offline",
    }
}

/// Such as "12 devices in 3 batches: 10 to flash, 1 offline, 1 blocked."
pub fn sentence(foreseen: &[Foreseen]) -> String {
    let plural = |count: usize, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let batches = foreseen.iter().filter_map(|d| d.batch).max().unwrap_or_default();
    let count = |fate: Fate| foreseen.iter().filter(|d| d.fate == fate).count();
    let fates = [
        (Fate::Flash, "to flash"),
        (Fate::Offline, "offline"),
        (Fate::Blocked, "blocked by another job"),
        (Fate::Refuse, "refused"),
        (Fate::Skip, "skipped"),
    ];
    let parts: Vec<String> = fates
        .into_iter()
        .filter(|(fate, _)| count(*fate) > 0)
        .map(|(fate, label)| format!("{} {label}", count(fate)))
        .collect();
    let devices = plural(foreseen.len(), "device", "devices");
    format!("{devices} in {}: {}.", plural(batches, "batch", "batches"), parts.join(", "))
}

#[cfg(test)]
mod tests;
