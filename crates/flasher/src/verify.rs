//! When a device is done: a decision over what `/info` shows after the image was sent.
//!
//! Bytes that were sent prove nothing: a board may reject the image and tell nobody, boot its old slot, or never come back.
//! So it is watched until it says itself what it runs. A board that ran the wanted version before proves nothing by
//! saying so again; it must have been away in between.

use std::time::Duration;

use flashjob_api::{Reason, Verify};

use crate::failure::Failure;
use crate::info::Info;
use crate::pace::Pace;

/// One look at the device.
#[derive(Clone, Debug)]
pub enum Sight {
    /// It answered.
    Info(Info),
    /// It answered, and not with what can be read.
    Unreadable(String),
    /// It did not answer.
    Away,
}

/// What has been seen of the device since the image was sent.
pub struct Watch<'a> {
    pace: Pace,
    mode: Verify,
    wanted: &'a str,
    before: Option<&'a Info>,
    was_away: bool,
    back_since: Option<Duration>,
    last: Option<String>,
}

impl<'a> Watch<'a> {
    /// Begins when the image was sent.
    pub fn new(pace: Pace, mode: Verify, wanted: &'a str, before: Option<&'a Info>) -> Watch<'a> {
        Watch { pace, mode, wanted, before, was_away: false, back_since: None, last: None }
    }

    /// Whether the device has been away since.
    pub fn was_away(&self) -> bool {
        self.was_away
    }

    /// Takes in one look, so long after the image was sent. Says when it is decided.
    pub fn see(&mut self, at: Duration, sight: Sight) -> Option<Result<Option<Info>, Failure>> {
        let (info, last) = match sight {
            Sight::Away => {
                self.was_away = true;
                self.back_since = None;
                return None;
            }
            Sight::Info(info) => (Some(info.clone()), format!("it runs {}", info.version())),
            Sight::Unreadable(text) => (None, format!("its /info cannot be read: {text}")),
        };
        self.last = Some(last);
        let back = *self.back_since.get_or_insert(at);
        let settled = self.was_away && at >= back + self.pace.settle();
        match self.mode {
            Verify::None => Some(Ok(info)),
            Verify::Restart if self.was_away => Some(Ok(info)),
            Verify::Version if info.as_ref().is_some_and(|i| self.proves(i)) => Some(Ok(info)),
            Verify::Version if settled => Some(Err(self.wrong(info))),
            _ if !self.was_away && at >= self.pace.restart() => Some(Err(self.rejected())),
            _ => None,
        }
    }

    /// Time is up.
    pub fn time_is_up(&self) -> Failure {
        match (&self.last, self.was_away) {
            (_, false) => self.rejected(),
            (Some(last), true) if self.back_since.is_some() => {
                let message = format!("time was up when the device had just come back: {last}");
                Failure::new(Reason::NotBack, message)
            }
            (_, true) => Failure::new(
                Reason::NotBack,
                "the device took the image, went away and has not come back; look at the board",
            ),
        }
    }

    /// Whether the device shows that it runs what was sent.
    fn proves(&self, info: &Info) -> bool {
        // Not knowing what ran before is no better than knowing that it was the same.
        let ran_before = self.before.is_none_or(|before| before.runs(self.wanted));
        info.runs(self.wanted) && (self.was_away || !ran_before)
    }

    fn rejected(&self) -> Failure {
        let seconds = self.pace.restart().as_secs_f64();
        let message = format!(
            "the device took the whole image and did not restart within {seconds:.0} s: it has rejected it. Is it \
             built and signed for this board, and small enough?"
        );
        Failure::new(Reason::ImageRejected, message)
    }

    fn wrong(&self, info: Option<Info>) -> Failure {
        let wanted = self.wanted;
        let before = self.before.map_or("an unknown version".to_owned(), Info::version);
        match info {
            Some(info) => {
                let after = info.version();
                let message = format!(
                    "the device restarted and runs {after}; before it ran {before}, wanted is {wanted}. Is that the \
                     version this firmware reports?"
                );
                Failure::new(Reason::VersionMismatch, message)
            }
            None => {
                let last = self.last.clone().unwrap_or_default();
                Failure::new(Reason::InfoUnreadable, format!("the device restarted, and {last}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str) -> Info {
        Info { version: Some(version.into()), ..Info::default() }
    }

    /// Looks once a second; `-` is away, `?` unreadable, anything else the version. Says how it was decided and when.
    fn story(mode: Verify, before: Option<&str>, looks: &[&str]) -> (usize, String) {
        let before = before.map(info);
        let mut watch = Watch::new(Pace::default(), mode, "2", before.as_ref());
        for (second, look) in looks.iter().enumerate() {
            let sight = match *look {
                "-" => Sight::Away,
                "?" => Sight::Unreadable("<html>".into()),
                version => Sight::Info(info(version)),
            };
            if let Some(decided) = watch.see(Duration::from_secs(second as u64), sight) {
                let words = match decided {
                    Ok(info) => format!("runs {}", info.map_or("?".into(), |i| i.version())),
                    Err(failure) => failure.reason.to_string(),
                };
                return (second, words);
            }
        }
        (looks.len(), watch.time_is_up().reason.to_string())
    }

    #[test]
    fn a_device_is_done_when_it_says_the_wanted_version() {
        assert_eq!(story(Verify::Version, Some("1"), &["1", "-", "-", "2"]), (3, "runs 2".into()));
        // Its restart was too quick to be seen.
        assert_eq!(story(Verify::Version, Some("1"), &["1", "1", "2"]), (2, "runs 2".into()));
    }

    #[test]
    fn the_same_version_counts_only_after_it_was_away() {
        let same = ["2"; 30];
        assert_eq!(story(Verify::Version, Some("2"), &same), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, None, &same), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, Some("2"), &["2", "-", "2"]), (2, "runs 2".into()));
    }

    #[test]
    fn an_image_that_is_rejected_tells_nobody() {
        assert_eq!(story(Verify::Version, Some("1"), &["1"; 30]), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Restart, Some("1"), &["1"; 30]), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, Some("1"), &["?"; 30]), (20, "ImageRejected".into()));
    }

    #[test]
    fn another_version_is_a_mismatch_once_it_has_settled() {
        let old_slot = ["1", "-", "1", "1", "1", "1", "1", "1", "1", "1"];
        assert_eq!(story(Verify::Version, Some("1"), &old_slot), (7, "VersionMismatch".into()));
        let twice = ["1", "-", "1", "1", "-", "2"];
        assert_eq!(story(Verify::Version, Some("1"), &twice), (5, "runs 2".into()));
        let unreadable = ["1", "-", "?", "?", "?", "?", "?", "?", "?"];
        assert_eq!(story(Verify::Version, Some("1"), &unreadable), (7, "InfoUnreadable".into()));
    }

    #[test]
    fn a_device_that_stays_away_is_not_back() {
        assert_eq!(story(Verify::Version, Some("1"), &["1", "-", "-"]), (3, "NotBack".into()));
        assert_eq!(story(Verify::Restart, Some("1"), &["-", "-"]), (2, "NotBack".into()));
    }

    #[test]
    fn a_restart_is_enough_where_that_is_asked_for_and_none_is_nothing() {
        assert_eq!(story(Verify::Restart, Some("1"), &["1", "-", "1"]), (2, "runs 1".into()));
        assert_eq!(story(Verify::None, Some("1"), &["1"]), (0, "runs 1".into()));
    }
}
