//! Completion: scripts for shells, and the words kubectl asks for.

use anyhow::Result;
use clap::{Arg, Command, CommandFactory};

use crate::args::{Cli, CompletionShell, Connection};
use crate::connect::Connected;
use crate::exit::Exit;
use crate::shell::Shell;

/// kubectl's word for "and no file names".
const NO_FILES: &str = ":4";
/// And for "file names will do".
const FILES: &str = ":0";
/// How many names are offered.
pub const MOST: u32 = 500;

pub fn script(wanted: CompletionShell, shell: &Shell) -> Result<Exit> {
    let mut command = Cli::command().bin_name("kubectl-flashjob").name("kubectl-flashjob");
    let mut text = Vec::new();
    let name = "kubectl-flashjob";
    match wanted {
        CompletionShell::Bash => {
            clap_complete::generate(clap_complete::Shell::Bash, &mut command, name, &mut text)
        }
        CompletionShell::Zsh => {
            clap_complete::generate(clap_complete::Shell::Zsh, &mut command, name, &mut text)
        }
        CompletionShell::Fish => {
            clap_complete::generate(clap_complete::Shell::Fish, &mut command, name, &mut text)
        }
    }
    shell.out(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

/// What may come next, one to a line, and then kubectl's directive. The last word is the one that is being typed. `names` lists
/// the objects that an argument of this id may name.
pub async fn words(
    to: &Connection,
    words: &[String],
    names: impl AsyncFn(&str, &Connected) -> Vec<String>,
    shell: &Shell,
) -> Result<Exit> {
    let mut root = Cli::command();
    root.build();
    let (typed, before) = match words.split_last() {
        Some((typed, before)) => (typed.as_str(), before),
        None => ("", words),
    };
    let (command, expects) = walk(&root, before);
    let mut offered: Vec<String> = Vec::new();
    let mut directive = NO_FILES;
    match expects {
        Expects::Value(arg) => match values(arg) {
            Some(values) => offered = values,
            None => directive = FILES,
        },
        Expects::Word => {
            if typed.starts_with('-') {
                offered = flags(command);
            } else if command.has_subcommands() {
                let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
                offered = visible.map(|c| c.get_name().to_owned()).collect();
            } else if let Some(arg) = command.get_positionals().next() {
                offered = match values(arg) {
                    Some(values) => values,
                    None => match opened(to, before).await {
                        Some(to) => names(arg.get_id().as_str(), &to).await,
                        None => Vec::new(),
                    },
                };
            }
        }
    }
    let fits = offered.into_iter().filter(|word| word.starts_with(typed));
    let mut text: String = fits.map(|word| word + "\n").collect();
    text += directive;
    text.push('\n');
    shell.out(&text)?;
    Ok(Exit::Done)
}

enum Expects<'a> {
    Value(&'a Arg),
    Word,
}

/// The command that the words lead to, and whether the last of them is a flag that wants a value.
fn walk<'a>(root: &'a Command, words: &[String]) -> (&'a Command, Expects<'a>) {
    let mut command = root;
    let mut expects = Expects::Word;
    for word in words {
        if let Expects::Value(_) = expects {
            expects = Expects::Word;
            continue;
        }
        if word.starts_with('-') {
            let flag = command.get_arguments().find(|arg| {
                let long = word.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long));
                let mut letters = word.chars().skip(1);
                let short = letters.next().is_some_and(|c| arg.get_short() == Some(c));
                long || (short && letters.next().is_none())
            });
            if let Some(flag) = flag.filter(|flag| flag.get_action().takes_values()) {
                expects = Expects::Value(flag);
            }
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        }
    }
    (command, expects)
}

fn values(arg: &Arg) -> Option<Vec<String>> {
    let values = arg.get_possible_values();
    (!values.is_empty()).then(|| values.iter().map(|value| value.get_name().to_owned()).collect())
}

fn flags(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")).collect()
}

/// The cluster and the namespace that the words speak of, if there is such a kubeconfig.
async fn opened(to: &Connection, words: &[String]) -> Option<Connected> {
    let value = |names: [&str; 2]| {
        let at = words.iter().position(|word| names.contains(&word.as_str()))?;
        words.get(at + 1).cloned()
    };
    let to = Connection {
        namespace: value(["-n", "--namespace"]).or_else(|| to.namespace.clone()),
        context: value(["--context", "--context"]).or_else(|| to.context.clone()),
        kubeconfig: value(["--kubeconfig", "--kubeconfig"]).map(Into::into),
        ..to.clone()
    };
    to.open().await.ok()
}
