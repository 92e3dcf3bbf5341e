//! Programs that never outlive the one that started them.
//!
//! A test process may be killed with SIGKILL, and then no destructor runs. So each program has a small shell above
//! it, a holder, that reads from a pipe whose other end only we have. The kernel closes our end however we die; the
//! holder sees the end of the file and kills its child. PDEATHSIG would do the same, but needs `unsafe`, and acts
//! when the *thread* that started the child ends, which under libtest is at the end of one test.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// SIGKILL, not SIGTERM: what these programs keep is scratch, and a stopped one (SIGSTOP) would not see a SIGTERM.
/// The child has a session of its own, so that what it has started ends with it. The reader is ended with the child, so
/// that it never signals a pid that has found a new owner.
const HOLDER: &str = r#"
exec 3<&0
log=$1; shift
setsid "$@" </dev/null >"$log" 2>&1 3<&- &
child=$!
echo "$child"
{ read -r _ <&3; kill -KILL "$child" "-$child"; } &
reader=$!
wait "$child"; code=$?
kill "$reader"
kill -KILL "-$child"
exit "$code"
"#;

/// Programs in the folder are killed at the same moment by their own holders and may still write: try again.
const JANITOR: &str = r#"
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$1" && exit 0
  sleep 0.1
done
"#;

/// A shell that waits for the end of its standard input.
fn holder(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "holder"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A Ctrl-C in the terminal is for the test process; the holder has to live on to clean up after it.
        .process_group(0);
    command
}

/// A program we started. It ends when this is dropped, and also when our process ends in whatever way.
#[derive(Debug)]
pub struct Running {
    name: String,
    holder: Child,
    line: Option<ChildStdin>,
    pid: Pid,
    log: PathBuf,
}

impl Running {
    /// Starts `program` with its output in `log`.
    pub(crate) fn start(program: &Path, args: &[String], log: PathBuf) -> Result<Self> {
        Self::start_with(program, args, None, log)
    }

    /// The same with this environment alone.
    pub fn start_with(
        program: &Path,
        args: &[String],
        env: Option<&BTreeMap<String, String>>,
        log: PathBuf,
    ) -> Result<Self> {
        Self::start_in(None, program, args, env, log)
    }

    /// The same in this folder.
    pub(crate) fn start_in(
        folder: Option<&Path>,
        program: &Path,
        args: &[String],
        env: Option<&BTreeMap<String, String>>,
        log: PathBuf,
    ) -> Result<Self> {
        let name =
            program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut command = holder(HOLDER);
        command.arg(&log).arg(program).args(args);
        if let Some(env) = env {
            command.env_clear().envs(env);
        }
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut holder =
            command.spawn().with_context(|| format!("cannot start a shell for {name}"))?;
        let line = holder.stdin.take();
        let mut pid = String::new();
        let out = holder.stdout.take().context("the holder has no output")?;
        BufReader::new(out)
            .read_line(&mut pid)
            .with_context(|| format!("cannot read the pid of {name}"))?;
        let pid = pid
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .with_context(|| format!("the holder of {name} gave no pid"))?;
        Ok(Self { name, holder, line, pid, log })
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program's process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.holder.try_wait(), Ok(None))
    }

    /// Its exit code once it has ended; 128 and more is a signal.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = self.holder.try_wait().ok()??;
        Some(status.code().unwrap_or(128))
    }

    /// The file its output goes to.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Stops the program where it stands (SIGSTOP): connections stay open and nobody answers.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused program go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Ends the program and waits until it is gone.
    pub fn stop(&mut self) {
        self.line = None;
        // A failing wait means that there is nothing left to wait for.
        let _ = self.holder.wait();
    }

    /// The last words of the program: the end of its log.
    pub fn last_words(&self) -> String {
        tail(&self.log, 4096).unwrap_or_else(|e| format!("(no log: {e})"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last `bytes` of a file.
pub(crate) fn tail(file: &Path, bytes: u64) -> std::io::Result<String> {
    let mut file = fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// A scratch folder that goes when this is dropped, and also when our process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    janitor: Child,
    line: Option<ChildStdin>,
}

impl Scratch {
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir()
            .context("cannot make a scratch folder")?
            .keep();
        let mut janitor =
            holder(JANITOR).arg(&path).spawn().context("cannot start a shell to clean up")?;
        let line = janitor.stdin.take();
        Ok(Self { path, janitor, line })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.line = None;
        let _ = self.janitor.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_is_seen_and_its_words_are_kept() -> Result<()> {
        let scratch = Scratch::new("flashjob-process-")?;
        let log = scratch.path().join("log");
        let args = ["-c".to_owned(), "echo broken; exit 3".to_owned()];
        let mut running = Running::start(Path::new("/bin/sh"), &args, log)?;
        assert_eq!(running.holder.wait()?.code(), Some(3));
        assert!(running.has_ended());
        assert_eq!(running.last_words(), "broken\n");
        Ok(())
    }

    #[test]
    fn drop_ends_even_a_paused_program_and_removes_the_folder() -> Result<()> {
        let scratch = Scratch::new("flashjob-process-")?;
        let folder = scratch.path().to_owned();
        let args = ["60".to_owned()];
        let running = Running::start(Path::new("/bin/sleep"), &args, folder.join("log"))?;
        running.pause()?;
        let pid = running.pid;
        drop(running);
        assert!(rustix::process::test_kill_process(pid).is_err());
        drop(scratch);
        assert!(!folder.exists());
        Ok(())
    }
}
