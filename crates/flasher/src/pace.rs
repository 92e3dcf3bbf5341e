//! How long to wait for what. The figures follow what the boards do; simulated boards may live faster.

use std::time::Duration;

/// Times, in the device's own measure.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    speed: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { speed: 1.0 }
    }
}

impl Pace {
    /// Boards that live this many times faster than real ones.
    pub fn new(speed: f64) -> Option<Pace> {
        (speed.is_finite() && speed >= 1.0).then_some(Pace { speed })
    }

    fn seconds(self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.speed)
    }

    /// A board that was asked dials 20 times, 4 s apart, and each try may take a moment of its own.
    pub fn callback(self) -> Duration {
        self.seconds(100.0)
    }

    /// The pause before a board is asked again after a session that broke: it has to notice, too.
    pub fn before_asking_again(self) -> Duration {
        self.seconds(5.0)
    }

    /// A board that accepts an image restarts 4 s later. One that has not by then has not accepted it.
    pub fn restart(self) -> Duration {
        self.seconds(20.0)
    }

    /// Between two looks at `/info`.
    pub fn look(self) -> Duration {
        self.seconds(0.5).max(Duration::from_millis(50))
    }

    /// A board that restarts does not answer for longer than this. Less is a packet that was lost or a server that was
    /// busy for a moment.
    pub fn outage(self) -> Duration {
        self.seconds(1.0)
    }

    /// For a connection to the board. Short, because a connection that only comes about at the third try hides that the
    /// board was away in the meantime.
    pub fn connect(self) -> Duration {
        self.seconds(2.0).max(Duration::from_millis(500))
    }

    /// For one request to the board.
    pub fn answer(self) -> Duration {
        self.seconds(5.0).max(Duration::from_secs(1))
    }

    /// For its certificate: making it takes the board long, and nothing else is answered meanwhile.
    pub fn certificate(self) -> Duration {
        self.seconds(15.0).max(Duration::from_secs(2))
    }

    /// For a word of the attestation service: it takes 2.5 s for each of the five in its queue. One that it has lost without
    /// a sign, because the queue was full, is asked anew.
    pub fn verdict(self) -> Duration {
        self.seconds(20.0).max(Duration::from_secs(3))
    }

    /// For a board that is away when it is first asked for: it may be restarting.
    pub fn reach(self) -> Duration {
        self.seconds(60.0)
    }

    /// A device that came back with another version may restart once more; after this it has settled.
    pub fn settle(self) -> Duration {
        self.seconds(10.0)
    }
}
