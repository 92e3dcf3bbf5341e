//! What can go wrong with a board, on request.

use std::time::Duration;

use serde::Serialize;

use super::dice::MacAddress;

/// One thing that goes wrong. Times are a board's own and are divided by its speed, like all its waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// `POST /update` is answered with 500, and nothing begins.
    Answers500,
    /// `POST /update` is not answered: the connection is closed after a while, and nothing begins.
    NoAnswer,
    /// `POST /update` begins an update, and the connection is closed without an answer.
    AnswerLost,
    /// The update is accepted, and the board never calls.
    NeverCallsBack,
    /// The connection is reset after so many bytes of firmware.
    DropsAt(u64),
    /// The image does not pass the check, whatever it is (a signature by a key the board does not know).
    RejectsImage,
    /// The image is accepted, and the board starts the old one.
    BootsOldSlot,
    /// The restart takes this much longer.
    RebootsSlowly(Duration),
    /// In the session the board shows the certificate of another.
    ShowsCertificateOf(MacAddress),
    /// The board reads at most so many bytes of firmware in a second, at any speed.
    Slow(u32),
    /// The board has no TLS: it answers `(Insecure)` and waits for a raw connection.
    RawTcp,
    /// `GET /onboard` is not there: 404.
    NoOnboard,
    /// `GET /onboard` gives the certificate of another board.
    OnboardsAs(MacAddress),
    /// `GET /onboard` fails with 500: no certificate could be made.
    OnboardFails,
    /// `GET /info` answers 500.
    InfoFails,
}

/// Where a fault shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the answer to `POST /update`.
    Post,
    /// In an update.
    Update,
    Onboard,
    Info,
}

impl Fault {
    fn place(&self) -> Place {
        match self {
            Self::Answers500 | Self::NoAnswer | Self::AnswerLost | Self::RawTcp => Place::Post,
            Self::NoOnboard | Self::OnboardsAs(_) | Self::OnboardFails => Place::Onboard,
            Self::InfoFails => Place::Info,
            Self::NeverCallsBack
            | Self::DropsAt(_)
            | Self::RejectsImage
            | Self::BootsOldSlot
            | Self::RebootsSlowly(_)
            | Self::ShowsCertificateOf(_)
            | Self::Slow(_) => Place::Update,
        }
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Every time.
    Always,
    /// The next so many times, and then no more.
    First(u32),
}

/// The faults a board has left.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(Fault, Times)>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault, times: Times) {
        self.0.push((fault, times));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The faults that happen now at this place. Each counts as having happened.
    pub(super) fn draw(&mut self, place: Place) -> Vec<Fault> {
        let mut drawn = Vec::new();
        for (fault, times) in self.0.iter_mut().filter(|(fault, _)| fault.place() == place) {
            match times {
                Times::First(0) => continue,
                Times::First(left) => *left -= 1,
                Times::Always => {}
            }
            drawn.push(fault.clone());
        }
        self.0.retain(|(_, times)| *times != Times::First(0));
        drawn
    }
}
