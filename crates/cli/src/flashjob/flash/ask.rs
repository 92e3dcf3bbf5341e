//! The conversation of the original's `filter_uuid.py`, question by question.
//!
//! Every answer that is documented for it works here. An answer that makes no sense is asked for again.

use std::io::BufRead;

use flashjob_api::flashjob::instance::same_board;
use flashjob_plan::flashjob::instances::Instance;

use super::compose::tag;
use crate::args::{amount, seconds};
use crate::flashjob::args::FlashOptions;
use crate::prompt::{Prompt, yes_or_no};
use crate::shell::clean;

/// The original's defaults.
const BATCH: &str = "5";
const DELAY: i32 = 60;

/// Which devices. `None`: broken off.
pub fn devices<'a, R: BufRead, W: FnMut(&str)>(
    prompt: &mut Prompt<R, W>,
    all: &[&'a Instance],
) -> Option<Vec<&'a Instance>> {
    let found = loop {
        let device = prompt.line("Enter device type to filter (or press Enter to skip): ")?;
        let app = prompt.line("Enter application type to filter (or press Enter to skip): ")?;
        let uuid = prompt.line("Enter UUID to filter (or press Enter to skip): ")?;
        let fits = |instance: &&&Instance| {
            (device.is_empty() || same(&device, &instance.device, "Unknown Device Type"))
                && (app.is_empty() || same(&app, &instance.application, "Unknown Application Type"))
                && (uuid.is_empty() || uuid == instance.uid || uuid == instance.name)
        };
        let found: Vec<&Instance> = all.iter().filter(fits).copied().collect();
        if !found.is_empty() {
            break found;
        }
        (prompt.tell)("No instances found matching the criteria.\n\n");
    };
    (prompt.tell)("\nAvailable Akri Instances:\n");
    for (number, instance) in found.iter().enumerate() {
        let or = |text: &str, unknown: &str| {
            if text.is_empty() { unknown.to_owned() } else { clean(text) }
        };
        (prompt.tell)(&format!(
            "[{number}] UUID: {}, Device Type: {}, Application Type: {} ({}/{}, runs {})\n",
            clean(&instance.uid),
            or(&instance.device, "Unknown Device Type"),
            or(&instance.application, "Unknown Application Type"),
            clean(&instance.namespace),
            clean(&instance.name),
            or(&instance.version, "an unknown version"),
        ));
    }
    let all = prompt.until("\nDo you want to select all UUIDs? (y/n): ", yes_or_no)?;
    if all {
        return Some(found);
    }
    let question = "\nEnter the numbers of the UUIDs you want to include (comma-separated): ";
    let chosen = prompt.until(question, |answer| numbers(answer, found.len()))?;
    Some(chosen.into_iter().map(|number| found[number]).collect())
}

/// What to flash and how, as far as no flag says it. `None`: broken off.
pub fn options<R: BufRead, W: FnMut(&str)>(
    prompt: &mut Prompt<R, W>,
    options: &mut FlashOptions,
) -> Option<()> {
    if options.firmware.is_none() {
        let firmware = prompt.until("Enter the firmware to use: ", one_word)?;
        options.firmware = Some(firmware);
    }
    if options.version.is_none() {
        let default = options.firmware.as_deref().and_then(tag);
        let question = match &default {
            Some(tag) => format!("Enter the version the firmware reports [{tag}]: "),
            None => "Enter the version the firmware reports: ".to_owned(),
        };
        let version = prompt.until(&question, |answer| match (answer, &default) {
            ("", Some(tag)) => Ok(tag.clone()),
            ("", None) => Err("The job is done when devices report this version.".to_owned()),
            (answer, _) => Ok(answer.to_owned()),
        })?;
        options.version = Some(version);
    }
    if options.image.is_none() {
        let question = "Enter the flashjobPodImage to use [the operator's own]: ";
        let image = prompt.until(question, |answer| match answer {
            "" => Ok(None),
            answer => one_word(answer).map(Some),
        })?;
        options.image = image;
    }
    if options.batch_size.is_none() {
        let question = "Enter the number of UUIDs per batch (default is 5): ";
        let batch = prompt.until(question, |answer| match answer {
            "" => Ok(BATCH.to_owned()),
            "0" | "0%" => Err("A batch has at least one device.".to_owned()),
            answer => amount(answer),
        })?;
        options.batch_size = Some(batch);
    }
    if options.delay.is_none() {
        let question = "Enter the delay between batches in seconds (default is 60): ";
        let delay = prompt.until(question, |answer| match answer {
            "" => Ok(DELAY),
            answer => seconds(answer),
        })?;
        options.delay = Some(delay);
    }
    Some(())
}

fn same(asked: &str, found: &str, unknown: &str) -> bool {
    let found = if found.is_empty() { unknown } else { found };
    asked.to_lowercase() == found.to_lowercase() || same_board(asked, found)
}

fn one_word(answer: &str) -> Result<String, String> {
    match answer {
        "" => Err("It cannot be empty.".to_owned()),
        _ if answer.contains(char::is_whitespace) => Err("It has blanks in it.".to_owned()),
        _ => Ok(answer.to_owned()),
    }
}

/// Numbers and ranges of them: `0,2` or `0-3,7`. Each counts once.
fn numbers(answer: &str, count: usize) -> Result<Vec<usize>, String> {
    let range = || format!("Write numbers from 0 to {}, with commas between them.", count - 1);
    let number = |text: &str| {
        let number = text.trim().parse::<usize>().ok().filter(|number| *number < count);
        number.ok_or_else(range)
    };
    let mut chosen = std::collections::BTreeSet::new();
    for part in answer.split(',').filter(|part| !part.trim().is_empty()) {
        match part.split_once('-') {
            Some((from, to)) => chosen.extend(number(from)?..=number(to)?),
            None => {
                chosen.insert(number(part)?);
            }
        }
    }
    if chosen.is_empty() {
        Err(format!("No UUIDs selected. {}", range()))
    } else {
        Ok(chosen.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
