//! `kubectl flashjob edge status`: how far a workload is: a bar, and a line for each device that lags.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

use crate::args::Connection;
use crate::clock;
use crate::connect::Connected;
use crate::edge::SYSTEM;
use crate::edge::args::StatusArgs;
use crate::edge::device::Device;
use crate::edge::lagging::{self, Lagging, lagging};
use crate::edge::read::{self, Kind};
use crate::edge::workload::Workload;
use crate::exit::Exit;
use crate::picture::{ALL_LINES, Canvas, bar, until_enough};
use crate::shell::{Shell, clean};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// A device may have another reason although the workload has not changed.
const DEVICES_AGAIN: Duration = Duration::from_secs(10);
/// A pod that has failed may be started again by its device. For so long that is waited for.
const FAILED_FOR: Duration = Duration::from_secs(15);

pub async fn run(to: &Connection, wanted: &StatusArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let workload: Workload =
        read::get(&connected, to.namespace.as_deref(), &wanted.workload).await?;
    if !wanted.wait {
        let devices = lagging::devices(&connected, &workload).await?;
        let lags = lagging(&workload, &devices, clock::now());
        shell.out(&(picture(&workload, &lags, ALL_LINES).join("\n") + "\n"))?;
        return Ok(Exit::Done);
    }
    let Workload { namespace, name, .. } = &workload;
    let goes_on =
        format!("Devices go on; see: kubectl flashjob edge status {name} -n {namespace} --wait");
    until_enough(follow(&connected, &workload, shell), wanted.timeout, &goes_on, shell).await
}

async fn follow(to: &Connected, first: &Workload, shell: &Shell) -> Result<Exit> {
    let mut screen = Screen::new(shell);
    let (mut workload, mut devices, mut listed) = (first.clone(), Vec::new(), None);
    let mut failed_since = None;
    loop {
        let version = workload.version.clone();
        let is_old = |(of, at): &(String, Instant)| *of != version || at.elapsed() > DEVICES_AGAIN;
        if listed.as_ref().is_none_or(is_old) {
            devices = lagging::devices(to, &workload).await?;
            listed = Some((version, Instant::now()));
        }
        screen.show(&workload, &devices);
        if has_failed(&workload) {
            failed_since.get_or_insert_with(Instant::now);
        } else {
            failed_since = None;
        }
        let is_over = failed_since.is_some_and(|since: Instant| since.elapsed() > FAILED_FOR);
        if workload.is_complete() || workload.is_current && workload.refused().is_some() || is_over
        {
            return Ok(screen.last(&workload, &devices));
        }
        sleep(PAUSE).await;
        match read::find(to, Some(&first.namespace), &first.name).await {
            Ok(Some(found)) => {
                workload = found;
                screen.troubled = false;
            }
            Ok(None) => bail!("{} was deleted", first.path()),
            Err(error) => screen.trouble(&error),
        }
    }
}

/// Nothing is left to wait for: it is on all devices, and on some of them it has failed.
fn has_failed(workload: &Workload) -> bool {
    let counts = workload.counts;
    workload.is_current && counts.failed > 0 && counts.deploying + counts.offline == 0
}

/// The lines of the picture, at most `height`.
fn picture(workload: &Workload, lags: &[Lagging], height: usize) -> Vec<String> {
    let mut lines = vec![clean(&title(workload))];
    if !workload.running.is_empty() {
        let number = |n: i32| usize::try_from(n).unwrap_or_default();
        let counts = workload.counts;
        let [matched, running, failed] =
            [counts.matched, counts.running, counts.failed].map(number);
        lines.push(bar("all", matched, running, failed));
    }
    let room = height.saturating_sub(lines.len() + 2);
    lines.extend(lags.iter().take(room).map(line));
    if lags.len() > room {
        lines.push(format!("  ... and {} devices more", lags.len() - room));
    }
    lines
}

fn title(workload: &Workload) -> String {
    let path = workload.path();
    match workload.message.as_str() {
        _ if workload.being_deleted => format!("{path}: it is being deleted"),
        "" => format!(
            "{path}: nobody has looked at it yet; is the operator up? See `{}`",
            SYSTEM.check
        ),
        before if !workload.is_current => {
            format!(
                "{path}: it was edited, and the operator has not taken that in yet; before: {before}"
            )
        }
        message => format!("{path}: {message}"),
    }
}

fn line(lag: &Lagging) -> String {
    format!("  {}  {:<10} {}", lag.device, lag.state, lag.why).trim_end().to_owned()
}

/// What is on the screen, or was said where nobody sees pictures.
struct Screen<'a> {
    shell: &'a Shell,
    canvas: Canvas,
    title: String,
    told: HashMap<String, String>,
    troubled: bool,
}

impl<'a> Screen<'a> {
    fn new(shell: &'a Shell) -> Screen<'a> {
        let (canvas, told) = (Canvas::default(), HashMap::new());
        Screen { shell, canvas, title: String::new(), told, troubled: false }
    }

    fn show(&mut self, workload: &Workload, devices: &[Device]) {
        let lags = lagging(workload, devices, clock::now());
        if self.shell.is_live() {
            let (_, height) = self.shell.size();
            return self.canvas.draw(&picture(workload, &lags, height), self.shell);
        }
        self.news(workload, &lags).iter().for_each(|line| self.shell.say(line));
    }

    /// What has changed since the last time. How long something lasts is no change.
    fn news(&mut self, workload: &Workload, lags: &[Lagging]) -> Vec<String> {
        let mut lines = Vec::new();
        let title = clean(&title(workload));
        if self.title != title {
            lines.push(title.clone());
            self.title = title;
        }
        let now: HashMap<String, String> =
            lags.iter().map(|lag| (lag.device.clone(), lag.state.to_owned())).collect();
        let is_new = |lag: &&Lagging| self.told.get(&lag.device) != now.get(&lag.device);
        lines.extend(lags.iter().filter(is_new).map(line));
        self.told = now;
        lines
    }

    /// The end in text: what has failed, whole and not cut at the edge.
    fn last(&self, workload: &Workload, devices: &[Device]) -> Exit {
        if workload.is_complete() {
            return Exit::Done;
        }
        if self.shell.is_live() {
            let lags = lagging(workload, devices, clock::now());
            lags.iter().for_each(|lag| self.shell.say(&line(lag)));
        }
        let Workload { namespace, name, .. } = workload;
        self.shell.say(&format!(
            "What to do: kubectl flashjob edge explain workload/{name} -n {namespace}"
        ));
        Exit::NotAllDone
    }

    fn trouble(&mut self, error: &anyhow::Error) {
        if !self.troubled {
            self.shell.note(&format!("the cluster does not answer, tried again: {error}"));
            self.troubled = true;
            self.canvas.leave();
        }
    }
}

#[cfg(test)]
mod tests;
