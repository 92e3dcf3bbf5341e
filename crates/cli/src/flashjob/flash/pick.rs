//! `--pick`: a list to search and tick.

use anyhow::{Context, Result};
use flashjob_plan::flashjob::instances::Instance;
use inquire::validator::MinLengthValidator;
use inquire::{InquireError, MultiSelect};

use crate::shell::clean;

/// Asks for devices. `None`: broken off.
pub fn pick<'a>(all: &[&'a Instance]) -> Result<Option<Vec<&'a Instance>>> {
    let line = |i: &&Instance| {
        clean(&format!(
            "{}/{}  {}  {}  {}",
            i.namespace, i.name, i.device, i.application, i.version
        ))
    };
    let lines: Vec<String> = all.iter().map(line).collect();
    let one = MinLengthValidator::new(1).with_message("tick one device at least");
    let asked = MultiSelect::new("Which devices?", lines)
        .with_help_message("type to search, space to tick, enter when done, esc to leave")
        .with_page_size(15)
        .with_formatter(&|ticked| format!("{} ticked", ticked.len()))
        .with_validator(one)
        .raw_prompt();
    match asked {
        Ok(ticked) => Ok(Some(ticked.into_iter().map(|option| all[option.index]).collect())),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => Ok(None),
        Err(error) => Err(error).context("cannot show the list"),
    }
}
