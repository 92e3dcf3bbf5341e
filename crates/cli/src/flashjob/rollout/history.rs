//! What a job has rolled out so far, from its ledger.

use anyhow::{Result, bail};
use flashjob_plan::flashjob::ledger::Past;
use jiff::Timestamp;
use serde::Serialize;

use crate::connect::Connected;
use crate::exit::Exit;
use crate::flashjob::SYSTEM;
use crate::flashjob::read;
use crate::output::{Format, print_as};
use crate::shell::{Shell, clean};
use crate::table::table;

#[derive(Serialize)]
struct RolloutHistory {
    rollouts: Vec<Past>,
}

pub async fn run(to: &Connected, name: &str, output: Format, shell: &Shell) -> Result<Exit> {
    let job = read::job(&to.client, &to.namespace, name).await?;
    let what = format!("cannot read the ledger of {name}, a ConfigMap");
    let ledger =
        read::ledger(&to.client, &job).await.map_err(|error| SYSTEM.failed(what, &error))?;
    let Some(ledger) = ledger else {
        bail!(
            "{name} has no ledger yet: it has not begun; `kubectl flashjob explain {name}` says why"
        );
    };
    shell.out(&print(&RolloutHistory { rollouts: ledger.remembered() }, output)?)?;
    Ok(Exit::Done)
}

fn print(history: &RolloutHistory, output: Format) -> Result<String> {
    print_as(history, output, |history| {
        let header = ["VERSION", "FIRMWARE", "BEGAN", "ENDED", "DONE", "FAILED", "DEVICES"];
        table(header, &history.rollouts.iter().map(line).collect::<Vec<_>>())
    })
}

fn line(past: &Past) -> [String; 7] {
    let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    [
        clean(&past.version),
        clean(&past.firmware),
        time(past.began),
        past.completed.map_or_else(|| "-".to_owned(), time),
        past.done.to_string(),
        past.failed.to_string(),
        past.total.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_firmware_has_a_line() {
        let past = |version: &str, completed: Option<i64>| Past {
            firmware: format!("registry.example/thermo:{version}"),
            version: version.to_owned(),
            began: Timestamp::from_second(1_800_000_000).unwrap(),
            completed: completed.map(|second| Timestamp::from_second(second).unwrap()),
            total: 10,
            done: 9,
            failed: 1,
        };
        let rollouts = vec![past("0.1.0", Some(1_800_000_060)), past("0.2.0", None)];
        let history = RolloutHistory { rollouts };
        let wanted = "\
VERSION   FIRMWARE                        BEGAN                  ENDED                  DONE   FAILED   DEVICES
0.1.0     registry.example/thermo:0.1.0   2027-01-15T08:00:00Z   2027-01-15T08:01:00Z   9      1        10
0.2.0     registry.example/thermo:0.2.0   2027-01-15T08:00:00Z   -                      9      1        10
";
        assert_eq!(print(&history, Format::Table).unwrap(), wanted);
        let json = print(&history, Format::Json).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["rollouts"][0]["completed"], "2027-01-15T08:01:00Z");
        let yaml = print(&history, Format::Yaml).unwrap();
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), json);
    }
}
