//! What is measured: by hand, because a few flags need no parser.

use anyhow::{Context, Result, bail};

/// What is to be measured.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Rollouts over so many devices.
    pub sizes: Vec<usize>,
    /// Flashes that take their time, of so many devices.
    pub flashes: Vec<usize>,
    /// A cold start with so many devices.
    pub cold: Option<usize>,
    /// A start among so many finished jobs.
    pub finished: Option<usize>,
    /// One rollout over so many devices, to its end and without floors.
    pub large: Option<usize>,
}

impl Options {
    /// Reads the arguments; what is not given is as the figures ask for it.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options> {
        let mut options = Options {
            sizes: vec![100, 1000],
            flashes: vec![1, 100],
            cold: Some(10_000),
            finished: Some(100),
            large: None,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                // What cargo says to every benchmark.
                "--bench" => {}
                "--quick" => options = Options { sizes: vec![50], ..Options::default() },
                "--large" => {
                    let large = numbers(args.next())?.first().copied();
                    options = Options { large, ..Options::default() };
                }
                "--sizes" => options.sizes = numbers(args.next())?,
                "--flashes" => options.flashes = numbers(args.next())?,
                "--cold" => options.cold = numbers(args.next())?.first().copied(),
                "--finished" => options.finished = numbers(args.next())?.first().copied(),
                other => bail!(
                    "{other}? There is --sizes 100,1000, --flashes 1,100, --cold 10000, --finished 100 (each may be \
                     none), and alone --quick or --large 100000"
                ),
            }
        }
        Ok(options)
    }
}

/// Numbers above 0 with commas between them; `none` is the empty list.
fn numbers(text: Option<String>) -> Result<Vec<usize>> {
    let text = text.context("a list of numbers is missing")?;
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|word| match word.trim().parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => bail!("{word:?} is no number of devices"),
        })
        .collect()
}
