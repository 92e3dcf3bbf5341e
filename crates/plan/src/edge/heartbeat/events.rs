//! Events of devices, as they become events of Kubernetes. A device decides how many there are and what they say, and each is
//! an object in etcd; so both have bounds, and what exceeds them is counted.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use flashjob_api::edge::wire;

use super::text::line;

/// Of one device in a minute; also of one heartbeat.
const OF_ONE: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Of all devices, one in this time.
const PACE: Duration = Duration::from_secs(1);
/// How many may come at once after a pause: all that one device may have.
const AT_ONCE: u32 = 10;
/// Bytes of a reason, and of a message: what Kubernetes takes.
const LONGEST_REASON: usize = 64;
const LONGEST_MESSAGE: usize = 1024;
const FALLBACK: &str = "DeviceEvent";

/// An event of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceEvent {
    /// A word in CamelCase.
    pub reason: String,
    pub message: String,
    pub warning: bool,
}

/// The events of a heartbeat, and how many more it has.
pub fn of(said: &wire::Heartbeat) -> (Vec<DeviceEvent>, usize) {
    let events = said.events.iter().take(OF_ONE).map(DeviceEvent::of).collect();
    (events, said.events.len().saturating_sub(OF_ONE))
}

impl DeviceEvent {
    fn of(said: &wire::Event) -> Self {
        let warning = said.type_.get(..4).is_some_and(|kind| kind.eq_ignore_ascii_case("warn"));
        Self {
            reason: reason(&said.reason),
            message: line(&said.message, LONGEST_MESSAGE),
            warning,
        }
    }
}

/// "image pull failed" is ImagePullFailed.
fn reason(said: &str) -> String {
    let mut word = String::new();
    let mut begins = true;
    for c in said.chars().take(4 * LONGEST_REASON) {
        let fits =
            if word.is_empty() { c.is_ascii_alphabetic() } else { c.is_ascii_alphanumeric() };
        if fits && word.len() < LONGEST_REASON {
            word.push(if begins { c.to_ascii_uppercase() } else { c });
        }
        begins = !fits;
    }
    if word.is_empty() { FALLBACK.to_owned() } else { word }
}

/// How many events there may be. It remembers those of the last minute that came through, and they are few.
#[derive(Debug, Default)]
pub struct EventLimits {
    /// When, and of which device.
    last: VecDeque<(Duration, u64)>,
    /// When all that may come at once may do so again.
    full_at: Duration,
}

impl EventLimits {
    /// Whether there may be an event of this device now, by a clock that never goes back. If not, it is to be counted.
    pub fn take(&mut self, device: &str, now: Duration) -> bool {
        while self.last.front().is_some_and(|(at, _)| at.saturating_add(MINUTE) <= now) {
            self.last.pop_front();
        }
        let mut hasher = DefaultHasher::new();
        device.hash(&mut hasher);
        let device = hasher.finish();
        let full_at = self.full_at.max(now).saturating_add(PACE);
        let too_many = full_at > now.saturating_add(PACE.saturating_mul(AT_ONCE));
        if too_many || self.last.iter().filter(|(_, of)| *of == device).count() >= OF_ONE {
            return false;
        }
        self.last.push_back((now, device));
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_word_that_kubernetes_takes() {
        let long = "a ".repeat(1000);
        let cases = [
            ("Failed", "Failed"),
            ("image pull failed", "ImagePullFailed"),
            ("OOM-killed_2", "OOMKilled2"),
            ("42 things", "Things"),
            ("\u{1b}[31mred", "Mred"),
            ("", FALLBACK),
            ("日本 7", FALLBACK),
            (&long, &"A".repeat(LONGEST_REASON)),
        ];
        for (said, expected) in cases {
            assert_eq!(reason(said), expected, "{said:?}");
        }
    }

    #[test]
    fn a_heartbeat_has_ten_events_and_a_number_for_the_rest() {
        let event = |type_: &str| wire::Event {
            reason: "Failed".into(),
            message: format!("{}\n", "m".repeat(2000)),
            type_: type_.into(),
        };
        let kinds = ["warn", "Warning", "info", "", "wär"];
        let events = (0..25).map(|n| event(kinds[n % 5])).collect();
        let (events, dropped) = of(&wire::Heartbeat { events, ..wire::Heartbeat::default() });
        assert_eq!((events.len(), dropped), (10, 15));
        assert!(events.iter().all(|event| event.message.len() <= LONGEST_MESSAGE));
        let warnings: Vec<_> = events.iter().take(5).map(|event| event.warning).collect();
        assert_eq!(warnings, [true, true, false, false, false]);
    }

    #[test]
    fn one_device_has_ten_events_in_a_minute() {
        let mut limits = EventLimits::default();
        let taken = |limits: &mut EventLimits, second| {
            let now = Duration::from_secs(second);
            (0..20).filter(|_| limits.take("a/b", now)).count()
        };
        assert_eq!([0, 30, 59, 60, 61].map(|s| taken(&mut limits, s)), [10, 0, 0, 10, 0]);
    }

    #[test]
    fn all_devices_have_one_in_a_second_and_their_number_costs_no_memory() {
        let mut limits = EventLimits::default();
        let mut taken = 0;
        for ms in 0..100_000_u64 {
            let device = format!("a/{}", ms % 5000);
            taken += usize::from(limits.take(&device, Duration::from_millis(ms)));
            assert!(limits.last.len() <= 70);
        }
        assert_eq!(taken, 10 + 99);
    }
}
