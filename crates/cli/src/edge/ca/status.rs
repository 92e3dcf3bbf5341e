//! `ca status`: each certificate with its end, and how many devices depend on which CA.

use std::collections::BTreeMap;

use anyhow::Result;
use flashjob_pki::{Certificate, KeyPurpose};
use flashjob_plan::edge::certificates::{self, DeviceKeys, Found, Holders};
use jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use crate::clock;
use crate::connect::Connected;
use crate::edge::device::{Device, days_until, keys_by_ca};
use crate::edge::read;
use crate::edge::secrets::{Authority, Secrets, id};
use crate::exit::Exit;
use crate::output::{Format, print_as};
use crate::read::Scope;
use crate::shell::{Shell, clean};
use crate::table::{counted, day, or_dash, table};

/// As `-o json` and `-o yaml` print it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    certificates: Vec<Row>,
    /// By the id of the CA.
    dependent_devices: BTreeMap<String, Dependents>,
    /// Of whom nobody knows which CA they depend on; they count for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    dependent_on_any: Option<Dependents>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unanswered_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_answer: Option<String>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    what: &'static str,
    /// The id of a CA, else the Secret.
    name: String,
    signed_by: String,
    ends: Timestamp,
    days_left: i64,
    note: String,
}

#[derive(Debug, Serialize)]
struct Dependents {
    count: usize,
    some: Vec<String>,
}

pub async fn run(
    to: &Connected,
    only: Option<&str>,
    home: &str,
    output: Format,
    shell: &Shell,
) -> Result<Exit> {
    let secrets = super::read(to, home).await?;
    let (all, mut notes) = (ListParams::default(), Vec::new());
    let devices: Vec<Device> = read::list(to, Scope::of(only, to), &all, &mut notes).await?;
    notes.iter().for_each(|note| shell.note(note));
    let status = status(&secrets, &keys_by_ca(&devices), clock::now());
    shell.out(&print_as(&status, output, text)?)?;
    Ok(Exit::Done)
}

fn status(secrets: &Secrets, devices: &DeviceKeys, now: Timestamp) -> Status {
    let facts = secrets.facts(Some(devices.clone()));
    let current = certificates::current_registration(&facts, now);
    let ca = secrets.ca.read();
    let row = |what, name: String, signed_by: Option<String>, of: &Certificate, note: &str| Row {
        what,
        name,
        signed_by: signed_by.unwrap_or_default(),
        ends: of.not_after(),
        days_left: days_until(of.not_after(), now),
        note: note.to_owned(),
    };
    let signer = |leaf: &Certificate, purpose| ca.and_then(|ca| ca.issuer(leaf, purpose));
    let mut rows: Vec<Row> = ca.map(|ca| authorities(ca, row)).unwrap_or_default();
    if let Found::Read(server) = &secrets.server {
        let leaf = server.leaf();
        let signed = signer(leaf, KeyPurpose::ServerAuth);
        let note = match signed {
            Some(_) => leaf.names().join(", "),
            None => format!("yours, never renewed; {}", leaf.names().join(", ")),
        };
        rows.push(row("server", certificates::SERVER_SECRET.to_owned(), signed, leaf, &note));
    }
    for registration in &secrets.registrations {
        let Found::Read(pair) = &registration.found else { continue };
        let is_current = current == Some(registration.secret.as_str());
        let note = if is_current { "handed out by bundle" } else { "from before" };
        let signed = signer(pair.leaf(), KeyPurpose::ClientAuth);
        rows.push(row("registration", registration.secret.clone(), signed, pair.leaf(), note));
    }
    let any = &devices.unknown;
    Status {
        certificates: rows,
        dependent_devices: devices.by_ca.iter().map(|(ca, h)| (ca.clone(), h.into())).collect(),
        dependent_on_any: (any.count > 0).then(|| any.into()),
        unanswered_command: secrets.command.clone(),
        last_answer: secrets.answer.clone(),
        problems: certificates::decide(&facts, now).problems,
    }
}

/// The CA, the one before it, and what leads from one to the other.
fn authorities(
    ca: &Authority,
    row: impl Fn(&'static str, String, Option<String>, &Certificate, &str) -> Row,
) -> Vec<Row> {
    let present = ca.pair.leaf();
    let mut rows = vec![row("CA", id(present), None, present, "signs everything")];
    if let Some(previous) = &ca.previous {
        rows.push(row("previous CA", id(previous), None, previous, "trusted until it is retired"));
    }
    for cross in &ca.cross {
        rows.push(row("cross", id(cross), None, cross, "for devices that know an older CA only"));
    }
    rows
}

impl From<&Holders> for Dependents {
    fn from(holders: &Holders) -> Dependents {
        Dependents { count: holders.count, some: holders.some.clone() }
    }
}

impl Dependents {
    fn words(&self) -> String {
        let some = self.some.join(", ");
        let more = self.count.saturating_sub(self.some.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}: {some}{more}", counted(self.count, "device"))
    }
}

/// For people.
fn text(status: &Status) -> String {
    let line = |row: &Row| {
        [
            row.what.to_owned(),
            row.name.clone(),
            or_dash(&row.signed_by),
            day(row.ends),
            row.days_left.to_string(),
            clean(&row.note),
        ]
    };
    let head = ["CERTIFICATE", "NAME", "SIGNED BY", "ENDS", "DAYS", "NOTE"];
    let lines: Vec<_> = status.certificates.iter().map(line).collect();
    let mut text = if lines.is_empty() { String::new() } else { table(head, &lines) };
    for (ca, dependents) in &status.dependent_devices {
        text += &clean(&format!("depend on the CA {ca}: {}", dependents.words()));
        text.push('\n');
    }
    if let Some(any) = &status.dependent_on_any {
        text += &format!("depend on any CA, until they are heard of: {}\n", any.words());
    }
    if let Some(command) = &status.unanswered_command {
        text += &format!("not answered yet: {}\n", clean(command));
    }
    if let Some(answer) = &status.last_answer {
        text += &format!("last answer: {}\n", clean(answer));
    }
    for problem in &status.problems {
        text += &format!("problem: {}\n", clean(problem));
    }
    text
}

#[cfg(test)]
mod tests;
