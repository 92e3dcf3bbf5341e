//! When a device is done: a decision over what `/info` shows after the image was sent.
//!
//! Bytes that were sent prove nothing: a board may reject the image and tell nobody, boot its old slot, or never come back.
//! So it is watched until it says itself what it runs. A board that ran the wanted version before proves nothing by
//! saying so again; it must have been away in between. And that it was away proves something only if it has had the whole
//! image before: a board that loses its power is away too.

use std::time::Duration;

use flashjob_api::flashjob::{Reason, Verify};

use crate::failure::Failure;
use crate::info::Info;
use crate::pace::Pace;

/// What one probe of the device found.
#[derive(Clone, Debug)]
pub enum Probe {
    /// It answered.
    Info(Info),
    /// It answered, and not with what can be read.
    Unreadable(String),
    /// It took the connection and did not answer in time: it is there, and proves nothing.
    Busy,
    /// It did not take the connection, or broke it.
    Away,
}

/// What has been seen of the device since the image was sent.
pub struct Watch<'a> {
    pace: Pace,
    mode: Verify,
    wanted: &'a str,
    before: Option<&'a Info>,
    whole: bool,
    away_since: Option<Duration>,
    was_away: bool,
    back_since: Option<Duration>,
    last: Option<String>,
}

impl<'a> Watch<'a> {
    /// Begins when the image was sent. `whole` says that the device has read it to the end for sure.
    pub fn new(
        pace: Pace,
        mode: Verify,
        wanted: &'a str,
        before: Option<&'a Info>,
        whole: bool,
    ) -> Watch<'a> {
        Watch {
            pace,
            mode,
            wanted,
            before,
            whole,
            away_since: None,
            was_away: false,
            back_since: None,
            last: None,
        }
    }

    /// Whether the device has been away since.
    pub fn was_away(&self) -> bool {
        self.was_away
    }

    /// Takes in one look that began so long after the image was sent. Says when it is decided.
    pub fn see(&mut self, at: Duration, probe: Probe) -> Option<Result<Option<Info>, Failure>> {
        let (info, last) = match probe {
            Probe::Away => {
                let since = *self.away_since.get_or_insert(at);
                self.was_away |= at >= since + self.pace.outage();
                self.back_since = None;
                return None;
            }
            Probe::Busy => {
                self.back_since = None;
                return None;
            }
            Probe::Info(info) => (Some(info.clone()), format!("it runs {}", info.version())),
            Probe::Unreadable(text) => (None, format!("its /info cannot be read: {text}")),
        };
        self.last = Some(last);
        if let Some(since) = self.away_since.take() {
            self.was_away |= at >= since + self.pace.outage();
        }
        let back = *self.back_since.get_or_insert(at);
        let settled = self.was_away && at >= back + self.pace.settle();
        match self.mode {
            Verify::None => Some(Ok(info)),
            Verify::Restart if self.was_away && self.whole => Some(Ok(info)),
            Verify::Version if info.as_ref().is_some_and(|i| self.proves(i)) => Some(Ok(info)),
            _ if settled => Some(Err(self.wrong(info))),
            _ if !self.was_away && at >= self.pace.restart() => Some(Err(self.rejected())),
            _ => None,
        }
    }

    /// Time is up.
    pub fn time_is_up(&self) -> Failure {
        match (&self.last, self.was_away || self.away_since.is_some()) {
            (_, false) => {
                Failure::new(Reason::Timeout, "time was up before the device could have restarted")
            }
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
        // Of a version that is cut off too little may be seen to tell it from the one before.
        if info.cut {
            return info.may_run(self.wanted) && self.before.is_some_and(|b| b.differs_from(info));
        }
        // Not knowing what ran before is no better than knowing that it was the same.
        let ran_before = self.before.is_none_or(|before| before.may_run(self.wanted));
        info.runs(self.wanted) && ((self.was_away && self.whole) || !ran_before)
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
            Some(info) if info.cut && info.may_run(wanted) => {
                let message = format!(
                    "the device restarted and runs {}, too little to tell whether it is {wanted}; before it ran \
                     {before}. Give it a shorter application name, or let a restart be enough",
                    info.version()
                );
                Failure::new(Reason::InfoUnreadable, message)
            }
            Some(info) if info.runs(wanted) || self.mode == Verify::Restart => Failure::new(
                Reason::TransferInterrupted,
                "the device restarted, but the line was lost before it had the whole image for sure",
            ),
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

    /// A version with `…` at its end is cut off there.
    fn info(version: &str) -> Info {
        let whole = match version {
            "1" | "2" => format!("{version}.0"),
            other => other.trim_end_matches('…').to_owned(),
        };
        Info { version: Some(whole), cut: version.ends_with('…'), ..Info::default() }
    }

    /// Looks once a second; `-` is away, `~` busy, `?` unreadable, anything else the version. Says how it was decided and when.
    fn story(mode: Verify, before: Option<&str>, looks: &[&str]) -> (usize, String) {
        told(mode, before, true, looks)
    }

    fn told(mode: Verify, before: Option<&str>, whole: bool, looks: &[&str]) -> (usize, String) {
        let before = before.map(info);
        let mut watch = Watch::new(Pace::default(), mode, "2.0", before.as_ref(), whole);
        for (second, look) in looks.iter().enumerate() {
            let probe = match *look {
                "-" => Probe::Away,
                "~" => Probe::Busy,
                "?" => Probe::Unreadable("<html>".into()),
                version => Probe::Info(info(version)),
            };
            if let Some(decided) = watch.see(Duration::from_secs(second as u64), probe) {
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
        assert_eq!(
            story(Verify::Version, Some("1"), &["1", "-", "-", "2"]),
            (3, "runs 2.0".into())
        );
        // Its restart was too quick to be seen.
        assert_eq!(story(Verify::Version, Some("1"), &["1", "1", "2"]), (2, "runs 2.0".into()));
    }

    #[test]
    fn the_same_version_counts_only_after_it_was_away() {
        let same = ["2"; 30];
        assert_eq!(story(Verify::Version, Some("2"), &same), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, None, &same), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, Some("2"), &["2", "-", "2"]), (2, "runs 2.0".into()));
        let busy = [&["~"; 15][..], &same].concat();
        assert_eq!(story(Verify::Version, Some("2"), &busy), (20, "ImageRejected".into()));
    }

    #[test]
    fn an_image_that_is_rejected_tells_nobody() {
        assert_eq!(story(Verify::Version, Some("1"), &["1"; 30]), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Restart, Some("1"), &["1"; 30]), (20, "ImageRejected".into()));
        assert_eq!(story(Verify::Version, Some("1"), &["?"; 30]), (20, "ImageRejected".into()));
    }

    #[test]
    fn another_version_is_a_mismatch_once_it_has_settled() {
        let old_slot = [&["1", "-"][..], &["1"; 12]].concat();
        assert_eq!(story(Verify::Version, Some("1"), &old_slot), (12, "VersionMismatch".into()));
        // It was too busy with the image to answer, and restarts only now.
        let busy = [&["~"; 18][..], &["1"; 2], &["-"; 4], &["2"]].concat();
        assert_eq!(story(Verify::Version, Some("1"), &busy), (24, "runs 2.0".into()));
        let twice = ["1", "-", "1", "1", "-", "2"];
        assert_eq!(story(Verify::Version, Some("1"), &twice), (5, "runs 2.0".into()));
        let unreadable = [&["1", "-"][..], &["?"; 12]].concat();
        assert_eq!(story(Verify::Version, Some("1"), &unreadable), (12, "InfoUnreadable".into()));
    }

    #[test]
    fn a_device_that_had_no_time_to_restart_has_not_rejected_anything() {
        assert_eq!(story(Verify::Version, Some("1"), &["1", "1"]), (2, "Timeout".into()));
    }

    #[test]
    fn a_device_that_stays_away_is_not_back() {
        assert_eq!(story(Verify::Version, Some("1"), &["1", "-", "-"]), (3, "NotBack".into()));
        assert_eq!(story(Verify::Restart, Some("1"), &["-", "-"]), (2, "NotBack".into()));
    }

    #[test]
    fn a_restart_is_enough_where_that_is_asked_for_and_none_is_nothing() {
        assert_eq!(story(Verify::Restart, Some("1"), &["1", "-", "1"]), (2, "runs 1.0".into()));
        assert_eq!(story(Verify::None, Some("1"), &["1"]), (0, "runs 1.0".into()));
    }

    #[test]
    fn a_moment_without_an_answer_is_no_restart() {
        let mut watch = Watch::new(Pace::default(), Verify::Restart, "2.0", None, true);
        let mut see = |at, probe| watch.see(Duration::from_millis(at), probe).is_some();
        assert!(!see(0, Probe::Away), "a packet was lost");
        assert!(!see(500, Probe::Info(info("1"))));
        assert!(!see(1000, Probe::Away));
        assert!(!see(1500, Probe::Away));
        assert!(see(2000, Probe::Info(info("1"))), "it was away for a second");
    }

    #[test]
    fn a_restart_proves_nothing_when_the_image_may_not_be_there() {
        let looks = [&["2", "-"][..], &["2"; 12]].concat();
        let lost = (12, "TransferInterrupted".into());
        assert_eq!(told(Verify::Version, Some("2"), false, &looks), lost);
        assert_eq!(told(Verify::Version, None, false, &looks), lost);
        assert_eq!(told(Verify::Restart, Some("1"), false, &looks), lost);
        let other = (2, "runs 2.0".into());
        assert_eq!(told(Verify::Version, Some("1"), false, &looks[1..]).1, other.1);
        assert_eq!(told(Verify::Version, Some("1"), false, &["1", "-", "2"]), other);
    }

    #[test]
    fn a_version_that_is_cut_off_has_to_differ_from_the_one_before() {
        let short = [&["-", "-"][..], &["2…"; 12]].concat();
        assert_eq!(story(Verify::Version, Some("1…"), &short), (2, "runs 2… (cut off)".into()));
        assert_eq!(story(Verify::Version, Some("2…"), &short), (12, "InfoUnreadable".into()));
        assert_eq!(story(Verify::Version, Some("2"), &short), (12, "InfoUnreadable".into()));
        assert_eq!(story(Verify::Version, None, &short), (12, "InfoUnreadable".into()));
    }
}
