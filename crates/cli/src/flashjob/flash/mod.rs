//! `kubectl flashjob flash`: from devices and options to one FlashJob.
//!
//! On a terminal without a choice of devices it holds the conversation of the original's script; with one it asks nothing.
//! The rollout is the operator's: nothing depends on this process staying alive.

pub mod ask;
mod compose;
mod pick;
mod save;

use std::path::Path;

use anyhow::{Result, bail};
use flashjob_api::flashjob::FlashJob;
use flashjob_plan::flashjob::instances::Instance;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use crate::args::Connection;
use crate::connect::Connected;
use crate::exit::{Exit, UsageError};
use crate::flashjob::SYSTEM;
use crate::flashjob::args::{Choice, FlashArgs, FlashOptions, WaitArgs};
use crate::flashjob::filter::Filter;
use crate::flashjob::fleet::Fleet;
use crate::flashjob::plan;
use crate::flashjob::rollout;
use crate::output::Format;
use crate::prompt::Prompt;
use crate::read::Scope;
use crate::shell::{Shell, clean};
pub use compose::compose;

/// How many names are tried for a job that was given none.
const NAMES: usize = 50;

pub async fn run(to: &Connection, mut wanted: FlashArgs, shell: &Shell) -> Result<Exit> {
    let chosen_by_flags = wanted.all || wanted.choice.is_given();
    if !chosen_by_flags || wanted.pick {
        if !shell.can_ask() {
            let why = "there is no terminal to ask on; say which devices";
            return Err(
                UsageError(format!("{why}: --device, --app, --uuid, --selector or --all")).into()
            );
        }
    } else {
        needs_no_answer(&wanted)?;
    }
    let filter = Filter::of(&wanted.choice, None, to.namespace.as_ref())?;
    let connected = to.open().await?;
    let scope = Scope::All(&connected.namespace);
    let labels = wanted.choice.selector.as_deref().unwrap_or_default();
    let fleet = Fleet::read(&connected.client, scope, labels).await?;
    fleet.notes.iter().for_each(|note| shell.note(note));

    let (devices, absent) = if chosen_by_flags && !wanted.pick {
        by_flags(&filter, &fleet.instances, &connected, shell)?
    } else {
        let Some(devices) = by_asking(&mut wanted, &filter, &fleet, shell)? else {
            shell.say("\nNothing was made.");
            return Ok(Exit::Interrupted);
        };
        (devices, Vec::new())
    };
    let job = compose(&devices, &absent, &wanted.options, &connected.namespace)?;
    // A job that makes no sense is not written anywhere.
    let foreseen = plan::foresee(&fleet, &job)?;
    if let Some(file) = &wanted.save {
        let text = save::documented(&job, &devices, shell)?;
        save::write(file, &text, shell)?;
    }
    if let Some(file) = &wanted.save_full {
        save::write(file, &save::whole(&job)?, shell)?;
    }
    // A job that goes to standard output has it for itself.
    let piped = [&wanted.save, &wanted.save_full]
        .iter()
        .any(|file| file.as_deref() == Some(Path::new("-")));
    let data = |text: &str| {
        if piped {
            shell.tell(text);
            Ok(())
        } else {
            shell.out(text)
        }
    };
    if wanted.dry_run {
        data(&plan::print(&foreseen, Format::Table)?)?;
        shell.say(&format!("{} Nothing was made: --dry-run.", plan::sentence(&foreseen)));
        return Ok(Exit::Done);
    }
    shell.say(&plan::sentence(&foreseen));
    let made = create(&connected.client, job, wanted.options.name.is_some()).await?;
    let name = made.name_any();
    data(&format!("flashjob.application.flashjob.nbfc.io/{name} created\n"))?;
    follow(&connected, &name, wanted.waiting, shell).await
}

async fn follow(to: &Connected, name: &str, waiting: WaitArgs, shell: &Shell) -> Result<Exit> {
    if waiting.wait {
        return rollout::follow(to, name, waiting.timeout, shell).await;
    }
    let namespace = &to.namespace;
    shell.say(&format!(
        "See how it goes: kubectl flashjob rollout status {name} -n {namespace} --wait"
    ));
    Ok(Exit::Done)
}

/// With flags nobody is asked, so all that is needed must be there.
fn needs_no_answer(wanted: &FlashArgs) -> Result<(), UsageError> {
    if wanted.all && !wanted.choice.is_given() && !wanted.yes && !wanted.dry_run {
        return Err(UsageError(
            "--all flashes every device Akri knows: add --yes if you mean it".into(),
        ));
    }
    complete(&wanted.options)
}

/// Whether firmware and version are known without asking.
pub fn complete(options: &FlashOptions) -> Result<(), UsageError> {
    let Some(firmware) = &options.firmware else {
        return Err(UsageError("--firmware is missing: the image to flash".into()));
    };
    if options.version.is_none() && compose::tag(firmware).is_none() {
        return Err(UsageError(format!(
            "--version is missing: the version {firmware} reports; its name has no tag to take it from"
        )));
    }
    Ok(())
}

type Chosen = (Vec<Instance>, Vec<String>);

/// Devices, and those named by namespace/name that are not there now: a job waits for them.
pub fn by_flags(
    filter: &Filter,
    instances: &[Instance],
    to: &Connected,
    shell: &Shell,
) -> Result<Chosen> {
    let (chosen, missing) = filter.choose(instances, &to.namespace);
    let mut absent = Vec::new();
    for (name, why) in missing {
        if !name.contains('/') || why.starts_with("it fits") {
            bail!("{}: {why}; `kubectl flashjob devices` lists them all", clean(&name));
        }
        shell.note(&format!("{}: {why} now; the job waits for it", clean(&name)));
        absent.push(name);
    }
    let devices: Vec<Instance> = chosen.into_iter().cloned().collect();
    if devices.is_empty() && absent.is_empty() {
        bail!("no device fits; `kubectl flashjob devices` lists them all");
    }
    Ok((devices, absent))
}

/// The conversation. `None`: it was broken off.
fn by_asking(
    wanted: &mut FlashArgs,
    filter: &Filter,
    fleet: &Fleet,
    shell: &Shell,
) -> Result<Option<Vec<Instance>>> {
    let (all, _) = filter.choose(&fleet.instances, "");
    if all.is_empty() {
        bail!("Akri has found no device; `kubectl flashjob check` looks for the cause");
    }
    // The list reads the keys itself, so nobody else may have taken some.
    let ticked = if wanted.pick { Some(pick::pick(&all)?) } else { None };
    let mut prompt = Prompt::new(std::io::stdin().lock(), |text: &str| shell.tell(text));
    let picked = match ticked {
        Some(ticked) => ticked,
        None => ask::devices(&mut prompt, &all),
    };
    let Some(devices) = picked else { return Ok(None) };
    if ask::options(&mut prompt, &mut wanted.options).is_none() {
        return Ok(None);
    }
    Ok(Some(devices.into_iter().cloned().collect()))
}

/// Makes the job. A name that was not asked for gives way to one that is there already.
async fn create(client: &Client, mut job: FlashJob, named: bool) -> Result<FlashJob> {
    let namespace = job.namespace().unwrap_or_default();
    let jobs: Api<FlashJob> = Api::namespaced(client.clone(), &namespace);
    let name = job.name_any();
    for n in 1..=NAMES {
        if n > 1 {
            job.metadata.name = Some(format!("{name}-{n}"));
        }
        match jobs.create(&PostParams::default(), &job).await {
            Ok(made) => return Ok(made),
            Err(kube::Error::Api(status)) if status.is_already_exists() && named => bail!(
                "there is a FlashJob {name} in namespace {namespace} already; choose another --name, or see \
                 `kubectl flashjob rollout status {name}`"
            ),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(SYSTEM.failed("cannot create the FlashJob", &error)),
        }
    }
    bail!("there are {NAMES} FlashJobs named {name} in namespace {namespace}; choose a --name")
}

impl Choice {
    /// Whether any device was chosen.
    pub fn is_given(&self) -> bool {
        let named = self.device.is_some() || self.app.is_some() || self.selector.is_some();
        named || !self.uuid.is_empty()
    }
}
