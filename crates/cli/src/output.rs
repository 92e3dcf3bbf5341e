//! How things are printed: `-o`, and lists that go on with `--watch`.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use serde::Serialize;

use crate::clock;
use crate::exit::Exit;
use crate::shell::Shell;

/// `--watch` lists again when something has changed, and not more often than this.
const PAUSE: Duration = Duration::from_secs(1);
/// And at the latest after this.
const LATEST: Duration = Duration::from_secs(60);

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

/// How anything else is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
    Yaml,
}

/// How something is printed that is no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    Json,
    Yaml,
}

/// What a list is made of.
pub trait Entry: Clone + PartialEq + Serialize {
    /// What the list is called in JSON and in sentences.
    const LIST: &'static str;

    fn namespace(&self) -> &str;
    fn name(&self) -> &str;
    fn table(entries: &[Self], now: Timestamp) -> String;
    fn wide(entries: &[Self], now: Timestamp) -> String;

    /// `namespace/name`.
    fn path(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// What no other of the list has.
    fn key(&self) -> String {
        self.path()
    }

    /// Whether nothing has changed that is worth a line.
    fn is_same(&self, before: &Self) -> bool {
        self == before
    }
}

/// A list in one of the forms there are.
pub fn print<T: Entry>(
    entries: &[T],
    output: Output,
    now: Timestamp,
    header: bool,
) -> Result<String> {
    let list = || HashMap::from([(T::LIST, entries)]);
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&list())? + "\n",
        Output::Yaml => serde_saphyr::to_string(&list())?,
        Output::Name => entries.iter().map(|entry| entry.path() + "\n").collect(),
        Output::Table | Output::Wide if entries.is_empty() => String::new(),
        Output::Table => T::table(entries, now),
        Output::Wide => T::wide(entries, now),
    };
    let is_table = matches!(output, Output::Table | Output::Wide);
    Ok(match (is_table && !header, text.split_once('\n')) {
        (true, Some((_, lines))) => lines.to_owned(),
        _ => text,
    })
}

/// Anything else in one of its forms.
pub fn print_as<T: Serialize>(
    value: &T,
    format: Format,
    table: impl FnOnce(&T) -> String,
) -> Result<String> {
    Ok(match format {
        Format::Table => table(value),
        Format::Json => serde_json::to_string_pretty(value)? + "\n",
        Format::Yaml => serde_saphyr::to_string(value)?,
    })
}

impl Document {
    pub fn print<T: Serialize>(self, value: &T) -> Result<String> {
        let format = match self {
            Document::Json => Format::Json,
            Document::Yaml => Format::Yaml,
        };
        print_as(value, format, |_| String::new())
    }
}

/// A list, and what could not be seen.
pub type Listed<T> = (Vec<T>, Vec<String>);

/// Prints what `read` lists; with `watch` it goes on and prints what has changed since, until the user has enough.
pub async fn show<T: Entry>(
    output: Output,
    watch: bool,
    mut changes: impl Stream<Item = ()> + Unpin,
    read: impl AsyncFn() -> Result<Listed<T>>,
    shell: &Shell,
) -> Result<Exit> {
    let (mut known, mut told, mut first) = (HashMap::new(), Vec::new(), true);
    loop {
        let (mut entries, notes) = read().await?;
        if told != notes {
            notes.iter().for_each(|note| shell.note(note));
            told = notes;
        }
        if watch {
            let now: HashMap<String, T> = entries.iter().map(|e| (e.key(), e.clone())).collect();
            entries.retain(|entry| {
                !known.get(&entry.key()).is_some_and(|before| entry.is_same(before))
            });
            known = now;
        }
        if first && entries.is_empty() && matches!(output, Output::Table | Output::Wide) {
            shell.say(&format!("No {} found.", T::LIST));
        }
        if first || !entries.is_empty() {
            shell.out(&print(&entries, output, clock::now(), first)?)?;
        }
        if !watch {
            return Ok(Exit::Done);
        }
        first = false;
        tokio::time::sleep(PAUSE).await;
        let _ = tokio::time::timeout(LATEST, changes.next()).await;
    }
}
