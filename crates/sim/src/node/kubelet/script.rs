//! Scripts: how it goes with containers that are not run. All containers of a Pod play the same one, but for init
//! containers, which end well at once.

use std::time::Duration;

use super::status;

/// How it goes with one Pod, as far as its containers are no processes. The default is instant success without a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From the binding to the start of the first container: pulling images, mounting volumes.
    pub start_after: Duration,
    /// From the start of a container to its end.
    pub run_for: Duration,
    /// How it ends.
    pub end: ScriptEnd,
    /// How a container takes SIGTERM, be it for the deadline or for a deletion.
    pub on_sigterm: Farewell,
    /// Containers beside the first go on when it has ended, until the Pod is deleted or its deadline has passed.
    pub sidecars_run_on: bool,
}

/// How a container ends that is told to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farewell {
    /// From SIGTERM to the end of the container.
    pub after: Duration,
    /// The exit code.
    pub exit_code: i32,
    /// The termination message.
    pub message: String,
}

impl Default for Farewell {
    fn default() -> Self {
        Self { after: Duration::ZERO, exit_code: status::TERMINATED, message: String::new() }
    }
}

/// How it ends with one Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptEnd {
    /// The container exits with 0.
    Success {
        /// The termination message.
        message: String,
    },
    /// The container exits with something else.
    Failure {
        /// The exit code.
        exit_code: i32,
        /// The termination message.
        message: String,
    },
    /// The container runs until the Pod is deleted or its deadline has passed.
    Never,
    /// No node takes the Pod.
    Unschedulable,
    /// The image cannot be had; the container never starts.
    ImagePullBackOff,
    /// The node runs short and throws the Pod out after `run_for`: Failed, and no word of its containers.
    Evicted,
}

impl Default for Script {
    fn default() -> Self {
        Self::success("")
    }
}

impl Script {
    /// Instant success with a termination message.
    pub fn success(message: impl Into<String>) -> Self {
        Self::ending(ScriptEnd::Success { message: message.into() })
    }

    /// Instant failure with a termination message.
    pub fn failure(exit_code: i32, message: impl Into<String>) -> Self {
        Self::ending(ScriptEnd::Failure { exit_code, message: message.into() })
    }

    /// This end, at once.
    pub fn ending(end: ScriptEnd) -> Self {
        Self {
            start_after: Duration::ZERO,
            run_for: Duration::ZERO,
            end,
            on_sigterm: Farewell::default(),
            sidecars_run_on: false,
        }
    }

    /// The same, with the container running this long.
    pub fn run_for(mut self, time: Duration) -> Self {
        self.run_for = time;
        self
    }

    /// The same, with the container starting this much later.
    pub fn start_after(mut self, time: Duration) -> Self {
        self.start_after = time;
        self
    }

    /// The same, with a container that ends this long after SIGTERM, and so.
    pub fn on_sigterm(mut self, after: Duration, exit_code: i32, message: &str) -> Self {
        self.on_sigterm = Farewell { after, exit_code, message: message.to_owned() };
        self
    }

    /// The same, with sidecars that do not end with the first container.
    pub fn sidecars_run_on(mut self) -> Self {
        self.sidecars_run_on = true;
        self
    }
}
