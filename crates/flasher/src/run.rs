//! The story of one attempt: look, fetch, meet, ask, send, and watch until the device says itself what it runs.

mod deliver;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashjob_api::flashjob::instance::same_board;
use flashjob_api::flashjob::{Reason, Verify, VersionPolicy, flash_pod};
use rustls::ServerConfig;
use tokio::time::{Instant, sleep, timeout_at};

use self::deliver::Open;
use crate::args::{External, Input};
use crate::attest::Judge;
use crate::board::Board;
use crate::dice::DiceCertificate;
use crate::event::{Event, Tell};
use crate::failure::Failure;
use crate::fetch::{self, Firmware, Source};
use crate::info::{self, Info};
use crate::outcome::Done;
use crate::tls;
use crate::verify::Probe;

/// How often a device whose session broke is asked, before the operator's own retry takes over.
const SESSIONS: u32 = 3;

/// Brings the firmware to the device.
pub async fn run(input: Input, tell: Tell) -> Result<Done, Failure> {
    // The kubelet ends the Pod at the deadline; by then the last words must be written.
    let margin = (input.deadline / 10).min(Duration::from_secs(10));
    let end = Instant::now() + input.deadline - margin;
    let attempt = Attempt::new(&input, tell, end)?;
    let now = attempt.now.clone();
    match timeout_at(end, attempt.run()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let doing = *now.lock().unwrap_or_else(PoisonError::into_inner);
            let seconds = input.deadline.as_secs();
            let message = format!("{seconds} s were not enough; time was up while {doing}");
            Err(Failure::new(Reason::Timeout, message))
        }
    }
}

struct Attempt<'a> {
    input: &'a Input,
    tell: Tell,
    end: Instant,
    board: Board,
    judge: Judge,
    tls: Arc<ServerConfig>,
    /// What is being done, for the one who has to say that time was up.
    now: Arc<Mutex<&'static str>>,
}

impl<'a> Attempt<'a> {
    /// Makes sure of everything that can be known before anything is touched.
    fn new(input: &'a Input, tell: Tell, end: Instant) -> Result<Attempt<'a>, Failure> {
        Ok(Attempt {
            tls: tls::server(&input.certificate, &input.key)?,
            judge: Judge::new(&input.attestation, input.pace)?,
            board: Board::new(&input.board, input.pace)?,
            now: Arc::new(Mutex::new("starting")),
            input,
            tell,
            end,
        })
    }

    fn doing(&self, what: &'static str) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    async fn run(self) -> Result<Done, Failure> {
        let address = self.resolve().await?;
        let before = self.first_look().await?;
        if let Some(done) = self.nothing_to_do(before.as_ref()) {
            return Ok(done);
        }
        let firmware = self.fetch().await?;
        let known = self.meet().await?;
        let (mut server, before) = match self.open(known.clone(), before).await? {
            Open::For(server, before) => (server, before),
            Open::NotNeeded(done) => return Ok(done),
        };
        let sent = self.deliver(address, &firmware, &mut server, before.as_ref()).await?;
        if let Some(known) = &known
            && self.input.verify != Verify::None
        {
            self.doing("making sure that it is still the same device");
            self.same_device(known).await?;
        }
        let from = before.and_then(|info| info.version);
        let to = sent.as_ref().map(Info::version);
        let message = match (self.input.verify, &to) {
            (Verify::None, _) => {
                "the device has taken the whole image; nobody looked further".into()
            }
            (_, Some(to)) => format!("the device runs {to}"),
            (_, None) => "the device has restarted".into(),
        };
        Ok(Done { skipped: false, message, from, to, digest: Some(firmware.digest) })
    }

    async fn resolve(&self) -> Result<Ipv4Addr, Failure> {
        self.doing("looking up EXTERNAL_IP");
        let name = match &self.input.external {
            External::Address(address) => return Ok(*address),
            External::Name(name) => name,
        };
        let found =
            tokio::net::lookup_host((name.as_str(), flash_pod::PORT)).await.map(Vec::from_iter);
        let why = match found {
            Ok(addresses) => {
                let v4 = addresses.iter().find_map(|address| match address {
                    SocketAddr::V4(v4) => Some(*v4.ip()),
                    SocketAddr::V6(_) => None,
                });
                match v4 {
                    Some(address) => return Ok(address),
                    None => "it has no IPv4 address".to_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        let message =
            format!("EXTERNAL_IP is {name}, and boards can dial IPv4 addresses only: {why}");
        Err(Failure::new(Reason::AddressUnsupported, message))
    }

    /// What the device says before anything is done to it.
    async fn first_look(&self) -> Result<Option<Info>, Failure> {
        self.doing("waiting for the device to answer");
        let patience = Instant::now() + self.input.pace.reach();
        loop {
            let probe = self.board.probe().await;
            self.right_board(&probe)?;
            match probe {
                Probe::Info(info) => {
                    (self.tell)(Event::Runs(info.version()));
                    return Ok(Some(info));
                }
                Probe::Unreadable(text) => {
                    (self.tell)(Event::Runs(format!("an unknown version, its /info is {text:?}")));
                    return Ok(None);
                }
                Probe::Away | Probe::Busy if Instant::now() >= patience => {
                    let message = format!("{} does not answer; is the board on?", self.input.board);
                    return Err(Failure::new(Reason::DeviceUnreachable, message));
                }
                Probe::Away | Probe::Busy => sleep(self.input.pace.look()).await,
            }
        }
    }

    /// Addresses move from board to board, and Akri's word may be old: a board that names another type than the job is for
    /// is not asked for anything. One that names none is judged by its certificate alone.
    fn right_board(&self, probe: &Probe) -> Result<(), Failure> {
        let Input { device, board, .. } = self.input;
        let named = match probe {
            Probe::Info(info) => info.device.clone(),
            Probe::Unreadable(text) => info::device(text),
            Probe::Away | Probe::Busy => None,
        };
        let Some(named) = named.filter(|named| !same_board(device, named)) else { return Ok(()) };
        let message =
            format!("the firmware is for {device}, and the board at {board} says it is {named}");
        Err(Failure::new(Reason::WrongDevice, message))
    }

    /// Whether the device is left alone: it runs the version already, and that is enough.
    fn nothing_to_do(&self, before: Option<&Info>) -> Option<Done> {
        let Input { version, previous_version, policy, attempt, .. } = self.input;
        let info = before.filter(|info| info.runs(version))?;
        let to = Some(info.version());
        let previous = Info { version: previous_version.clone(), ..Info::default() };
        // It ran something else when this job began, so an earlier attempt has done it and was not heard.
        if *attempt > 1 && previous_version.is_some() && !previous.runs(version) {
            let message = format!("the device runs {version}: an earlier attempt has done it");
            let from = previous_version.clone();
            return Some(Done { skipped: false, message, from, to, digest: None });
        }
        let message = format!("the device runs {version} already");
        (*policy == VersionPolicy::IfDifferent).then(|| Done {
            skipped: true,
            message,
            from: to.clone(),
            to,
            digest: None,
        })
    }

    async fn fetch(&self) -> Result<Firmware, Failure> {
        self.doing("fetching the firmware");
        (self.tell)(Event::Fetching(self.input.firmware.clone()));
        let source = Source {
            image: self.input.firmware.clone(),
            device: self.input.device.clone(),
            credentials: Some(self.input.registry_config.clone()),
            ca: self.input.registry_ca.clone(),
            plain_http: self.input.plain_http,
            public_key: self.input.cosign_key.clone(),
            max_bytes: self.input.max_bytes,
            patience: fetch::PATIENCE,
        };
        let firmware = fetch::fetch(&source, &std::env::temp_dir()).await?;
        let digest = firmware.digest.clone();
        (self.tell)(Event::Fetched { bytes: firmware.bytes, digest });
        Ok(firmware)
    }

    /// Has the device show who it is, and that judged, before it is asked for anything.
    async fn meet(&self) -> Result<Option<DiceCertificate>, Failure> {
        self.doing("having the device's certificate judged");
        let mut why = Failure::new(Reason::DeviceUnreachable, "");
        for _ in 0..3 {
            match self.board.certificate().await {
                Ok(Ok(der)) => match DiceCertificate::from_der(&der) {
                    Ok(certificate) => {
                        self.judge.judge(&certificate, &self.tell).await?;
                        let identity = certificate.issuer.clone();
                        let judge = self.judge.name().to_owned();
                        (self.tell)(Event::Known { identity, judge });
                        return Ok(Some(certificate));
                    }
                    Err(error) if matches!(self.judge, Judge::Nobody) => {
                        return self.unknown(format!("/onboard shows {error}"));
                    }
                    Err(error) => {
                        let message = format!("the device's /onboard shows {error}");
                        return Err(Failure::new(Reason::AttestationFailed, message));
                    }
                },
                Ok(Err(absent)) => return self.unknown(absent),
                Err(error) => why = error,
            }
            (self.tell)(Event::Again(format!("the device's certificate: {}", why.message)));
            sleep(self.input.pace.before_asking_again()).await;
        }
        why.message = format!("the device does not show its certificate: {}", why.message);
        Err(why)
    }

    fn unknown(&self, why: String) -> Result<Option<DiceCertificate>, Failure> {
        if self.input.require_identity {
            let message =
                format!("REQUIRE_IDENTITY is set, and the device does not show who it is: {why}");
            return Err(Failure::new(Reason::IdentityMismatch, message));
        }
        (self.tell)(Event::Unknown(why));
        Ok(None)
    }

    /// Whether the device that answers now is the one that was asked.
    async fn same_device(&self, known: &DiceCertificate) -> Result<(), Failure> {
        let mut why = Failure::new(Reason::DeviceUnreachable, "");
        for _ in 0..3 {
            match self.board.certificate().await {
                Ok(Ok(der)) => {
                    let issuer = DiceCertificate::from_der(&der).map(|c| c.issuer);
                    if issuer.as_ref() == Ok(&known.issuer) {
                        return Ok(());
                    }
                    let now = issuer.unwrap_or_else(|error| error);
                    let message = format!(
                        "device {} was flashed, and at its address answers {now} now",
                        known.issuer
                    );
                    return Err(Failure::new(Reason::IdentityMismatch, message));
                }
                Ok(Err(absent)) => return self.unknown(absent).map(drop),
                Err(error) => why = error,
            }
            sleep(self.input.pace.look()).await;
        }
        match why.reason {
            // It says what it runs, and cannot say who it is any more.
            Reason::AttestationFailed => self.unknown(why.message).map(drop),
            _ => {
                let message =
                    format!("the device came back and does not answer any more: {}", why.message);
                Err(Failure::new(Reason::NotBack, message))
            }
        }
    }
}
