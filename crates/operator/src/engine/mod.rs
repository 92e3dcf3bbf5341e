//! What every controller needs, whatever it is for: watches, a work queue, a pool of calls, writes that are confirmed when
//! their answer was lost, and a status that is throttled.
//!
//! ```text
//!   watch ──▶ take ──▶ queue ──▶ reconcile ──▶ pool ──▶ read, write
//!     ▲        ▲                                            │
//!     │        └── every answer comes back as an input ◀────┤
//!     └────────────── API server ◀──────────────────────────┘
//! ```
//!
//! One task owns all state of a controller and never waits for the API server: it takes inputs (what a watch saw, what a call
//! came to), reconciles the keys they touch, and hands calls to a bounded pool, where namespaces take turns.

pub mod backoff;
pub mod fair_queue;
pub mod panics;
pub mod pool;
pub mod queue;
pub mod read;
pub mod slim;
pub mod status;
pub mod watch;
pub mod write;

use std::cmp::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, watch as flag};
use tokio::time::Instant;

use fair_queue::Flow;
use pool::Pool;
use queue::{Queue, SLICE};

/// Inputs that may wait; more than this, and the watches wait.
pub const MOST_INPUTS: usize = 1024;
/// How long calls under way may take to end when the process stops.
const LAST_CALLS: Duration = Duration::from_secs(3);

/// The part of a controller that is a system's own: what it knows, and what it makes of it.
pub trait Controller {
    /// What watches see and calls come to.
    type Input;

    /// Takes something in, and puts the keys that it concerns into the queue.
    fn take(&mut self, input: Self::Input);

    /// Whether enough is known to decide anything.
    fn is_ready(&self) -> bool;

    /// Enough is known, for the first time. Every key that is due then is reconciled before anything else is taken in.
    fn begin(&mut self);

    /// Which of two keys is reconciled first, of those that are due together.
    fn order(&self, one: &str, other: &str) -> Ordering;

    /// Observes, decides and acts for one key. Says how long its next reconcile has to wait at least, from now.
    fn reconcile(&mut self, key: &str) -> Duration;

    /// With what a key takes turns; `None` if there is no such key any more.
    fn flow(&self, key: &str) -> Option<Flow>;

    fn queue(&mut self) -> &mut Queue;

    fn pool(&self) -> &Pool;
}

/// Runs a controller until `stop` says so. The lease must be held.
pub async fn run<C: Controller>(
    mut controller: C,
    mut inputs: mpsc::Receiver<C::Input>,
    mut stop: flag::Receiver<bool>,
) {
    let mut begun = false;
    loop {
        let ready = controller.is_ready();
        let next = if ready { controller.queue().next() } else { None };
        let sleep = async {
            match next {
                // Calls and watches are on the same thread, and go on between two reconciles.
                Some(at) if at <= Instant::now() => tokio::task::yield_now().await,
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(input) = inputs.recv() => {
                controller.take(input);
                // Whatever has come in by now is reconciled together.
                for _ in 0..MOST_INPUTS {
                    let Ok(input) = inputs.try_recv() else { break };
                    controller.take(input);
                }
            }
            () = sleep => {}
        }
        if controller.is_ready() {
            reconcile_due(&mut controller, &mut begun);
        }
    }
    // Decides no more; what is on its way may arrive.
    if tokio::time::timeout(LAST_CALLS, controller.pool().finish()).await.is_err() {
        tracing::warn!("some calls were not answered in time");
    }
}

/// Reconciles the keys whose time has come, for a while.
fn reconcile_due<C: Controller>(controller: &mut C, begun: &mut bool) {
    let began = Instant::now();
    let mut due = controller.queue().take_due(began);
    due.sort_by(|one, other| controller.order(one, other));
    let mut due = due.into_iter();
    if !*begun {
        *begun = true;
        controller.begin();
        due.by_ref().for_each(|key| reconcile(controller, &key));
    }
    while !controller.queue().has_left_over() && began.elapsed() < SLICE {
        let Some(key) = due.next() else { break };
        reconcile(controller, &key);
    }
    for key in due {
        if let Some(flow) = controller.flow(&key) {
            controller.queue().leave_over(&flow);
        }
    }
    while began.elapsed() < SLICE {
        let Some(key) = controller.queue().next_left_over() else { break };
        reconcile(controller, &key);
    }
}

fn reconcile<C: Controller>(controller: &mut C, key: &str) {
    let began = Instant::now();
    controller.queue().begin(key);
    let pause = controller.reconcile(key);
    controller.queue().end(key, began, Instant::now(), pause);
}

#[cfg(test)]
mod tests {
    use kube::Client;
    use kube::client::Body;

    use super::*;

    /// A controller that writes down what it is asked for. An input is a key, `ready`, or `late`, which comes in while the
    /// key `slow` is reconciled.
    struct Toy {
        inputs: mpsc::Sender<&'static str>,
        queue: Queue,
        pool: Pool,
        ready: bool,
        done: mpsc::UnboundedSender<String>,
    }

    impl Controller for Toy {
        type Input = &'static str;

        fn take(&mut self, input: &'static str) {
            match input {
                "ready" => self.ready = true,
                "late" => drop(self.done.send("late".to_owned())),
                key => self.queue.enqueue_at(key, Instant::now()),
            }
        }

        fn is_ready(&self) -> bool {
            self.ready
        }

        fn begin(&mut self) {
            let _ = self.done.send("begin".to_owned());
        }

        fn order(&self, one: &str, other: &str) -> Ordering {
            one.cmp(other)
        }

        fn reconcile(&mut self, key: &str) -> Duration {
            let _ = self.done.send(key.to_owned());
            if key == "slow" {
                let _ = self.inputs.try_send("late");
                std::thread::sleep(2 * SLICE);
            }
            Duration::ZERO
        }

        fn flow(&self, key: &str) -> Option<Flow> {
            Some(Flow { namespace: key[..1].to_owned(), key: key.to_owned() })
        }

        fn queue(&mut self) -> &mut Queue {
            &mut self.queue
        }

        fn pool(&self) -> &Pool {
            &self.pool
        }
    }

    /// What a controller is asked for, in order, when it is given these inputs and then told to stop.
    async fn asked(inputs: &[&'static str], expected: usize) -> Vec<String> {
        let nobody = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, tower::BoxError>>()
        });
        let pool = Pool::new(Client::new(nobody, "default"), 1);
        let (done, mut told) = mpsc::unbounded_channel();
        let (sender, arriving) = mpsc::channel(MOST_INPUTS);
        let (say_stop, stop) = flag::channel(false);
        for input in inputs {
            sender.send(*input).await.unwrap();
        }
        let toy = Toy { inputs: sender, queue: Queue::default(), pool, ready: false, done };
        let listen = async {
            let mut words = Vec::new();
            while words.len() < expected {
                words.extend(told.recv().await);
            }
            let _ = say_stop.send(true);
            words
        };
        tokio::join!(run(toy, arriving, stop), listen).1
    }

    #[tokio::test]
    async fn nothing_is_reconciled_before_enough_is_known_and_then_all_in_order() {
        assert_eq!(asked(&["b", "c", "a", "b", "ready"], 4).await, ["begin", "a", "b", "c"]);
    }

    #[tokio::test]
    async fn the_first_keys_are_reconciled_before_anything_else_is_taken_in() {
        let asked = asked(&["z", "slow", "a", "ready"], 5).await;
        assert_eq!(asked, ["begin", "a", "slow", "z", "late"]);
    }
}
