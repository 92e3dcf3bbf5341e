//! The story of one attempt: look, fetch, meet, ask, send, and watch until the device says itself what it runs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashjob_api::{Reason, Verify, VersionPolicy};
use rustls::ServerConfig;
use tokio::fs::File;
use tokio::time::{Instant, sleep, timeout_at};

use crate::args::{External, Input};
use crate::attest::Judge;
use crate::board::{Asked, Board};
use crate::dice::DiceCertificate;
use crate::event::{Event, Tell};
use crate::failure::Failure;
use crate::fetch::{self, Firmware, Source};
use crate::info::Info;
use crate::outcome::Done;
use crate::serve::{Caller, Expected, Server};
use crate::tls;
use crate::transfer::Broken;
use crate::verify::{Sight, Watch};

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
            judge: Judge::new(&input.attestation)?,
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
        let sent = self.deliver(address, &firmware, known.clone(), before.as_ref()).await?;
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
        let found = tokio::net::lookup_host((name.as_str(), 4433)).await.map(Vec::from_iter);
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
            match self.board.look().await {
                Sight::Info(info) => {
                    (self.tell)(Event::Runs(info.version()));
                    return Ok(Some(info));
                }
                Sight::Unreadable(text) => {
                    (self.tell)(Event::Runs(format!("an unknown version, its /info is {text:?}")));
                    return Ok(None);
                }
                Sight::Away if Instant::now() >= patience => {
                    let message = format!("{} does not answer; is the board on?", self.input.board);
                    return Err(Failure::new(Reason::DeviceUnreachable, message));
                }
                Sight::Away => sleep(self.input.pace.look()).await,
            }
        }
    }

    /// Whether the device is left alone: it runs the version already, and that is enough.
    fn nothing_to_do(&self, before: Option<&Info>) -> Option<Done> {
        let Input { version, previous_version, policy, attempt, .. } = self.input;
        let info = before.filter(|info| info.runs(version))?;
        let to = Some(info.version());
        if *policy == VersionPolicy::IfDifferent {
            let message = format!("the device runs {version} already");
            return Some(Done { skipped: true, message, from: to.clone(), to, digest: None });
        }
        let previous = Info { version: previous_version.clone(), ..Info::default() };
        // It ran something else when this job began, so an earlier attempt has done it and was not heard.
        (*attempt > 1 && previous_version.is_some() && !previous.runs(version)).then(|| Done {
            skipped: false,
            message: format!("the device runs {version}: an earlier attempt has done it"),
            from: previous_version.clone(),
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
        let mut why = String::new();
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
            (self.tell)(Event::Again(format!("the device's certificate: {why}")));
            sleep(self.input.pace.before_asking_again()).await;
        }
        let message = format!("the device does not show its certificate: {why}");
        Err(Failure::new(Reason::DeviceUnreachable, message))
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

    /// Sends the image until the device has it, and watches what it does with it.
    async fn deliver(
        &self,
        address: Ipv4Addr,
        firmware: &Firmware,
        known: Option<DiceCertificate>,
        before: Option<&Info>,
    ) -> Result<Option<Info>, Failure> {
        let expected = Expected { certificate: known, judge: self.judge.clone() };
        let (listen, tls) = (self.input.listen, self.tls.clone());
        let mut server = Server::open(listen, tls, expected, self.tell.clone())?;
        let unreadable = |error: std::io::Error| {
            Failure::new(Reason::PullFailed, format!("the image cannot be read again: {error}"))
        };
        let mut image = File::open(firmware.file.path()).await.map_err(unreadable)?;
        let mut early = None;
        if self.input.attempt > 1 {
            self.doing("listening for a device that an earlier attempt may have asked");
            (self.tell)(Event::ListeningFirst);
            early = server.caller(self.input.pace.callback()).await;
        }
        let mut why = String::new();
        for session in 1..=SESSIONS {
            let caller = match early.take() {
                Some(caller) => caller,
                None => self.called(&mut server, address).await?,
            };
            self.doing("sending the image");
            (self.tell)(Event::Connected(caller.peer));
            let sent = caller.send(&mut image, firmware.bytes, &self.tell).await;
            let doubtful = match sent {
                Ok(()) => false,
                Err(Broken::AtTheEnd(error)) => {
                    why = error;
                    true
                }
                Err(Broken::Halfway(error)) => {
                    why = error;
                    self.rest(session, &why).await;
                    continue;
                }
            };
            match self.watch(before).await {
                Err(failure) if doubtful && failure.reason == Reason::ImageRejected => {
                    self.rest(session, &why).await;
                }
                decided => return decided,
            }
        }
        let message =
            format!("the image could not be sent in {SESSIONS} sessions; the last time {why}");
        Err(Failure::new(Reason::TransferInterrupted, message))
    }

    /// Gives the device time to notice that its session is over.
    async fn rest(&self, session: u32, why: &str) {
        if session < SESSIONS {
            (self.tell)(Event::Again(why.to_owned()));
            sleep(self.input.pace.before_asking_again()).await;
        }
    }

    /// Asks the device, once, and waits for its call.
    async fn called(&self, server: &mut Server, address: Ipv4Addr) -> Result<Caller, Failure> {
        self.doing("asking the device");
        (self.tell)(Event::Asking);
        let patience = Instant::now() + self.input.pace.reach();
        loop {
            match self.board.ask(address).await? {
                Asked::Accepted => break,
                // It may be at work already: to ask again could spoil its slot.
                Asked::InDoubt(why) => {
                    (self.tell)(Event::Again(format!("its answer was lost, it may call: {why}")));
                    break;
                }
                Asked::NotReached(why) if Instant::now() >= patience => {
                    let message = format!("{} cannot be asked: {why}", self.input.board);
                    return Err(Failure::new(Reason::DeviceUnreachable, message));
                }
                Asked::NotReached(_) => sleep(self.input.pace.look()).await,
            }
        }
        self.doing("waiting for the device to call");
        (self.tell)(Event::Waiting);
        let caller = server.caller(self.input.pace.callback()).await;
        caller.ok_or_else(|| {
            server.turned_away().unwrap_or_else(|| {
                let message = format!(
                    "the device accepted the request and did not call {address}:4433; can it reach that address, and \
                     is the server certificate the one pinned in it?"
                );
                Failure::new(Reason::NoCallback, message)
            })
        })
    }

    /// Watches the device until it is decided.
    async fn watch(&self, before: Option<&Info>) -> Result<Option<Info>, Failure> {
        if self.input.verify == Verify::None {
            return Ok(None);
        }
        self.doing("watching the device restart");
        (self.tell)(Event::Watching);
        let Input { pace, verify, version, .. } = self.input;
        let began = Instant::now();
        // Ends a moment before everything does, so that it is told what was seen.
        let end = self.end - pace.look().min(Duration::from_millis(200));
        let mut watch = Watch::new(*pace, *verify, version, before);
        loop {
            let Ok(sight) = timeout_at(end, self.board.look()).await else {
                return Err(watch.time_is_up());
            };
            let was_away = watch.was_away();
            if let Some(decided) = watch.see(began.elapsed(), sight) {
                return decided;
            }
            if watch.was_away() && !was_away {
                (self.tell)(Event::Away);
            }
            if timeout_at(end, sleep(pace.look())).await.is_err() {
                return Err(watch.time_is_up());
            }
        }
    }

    /// Whether the device that answers now is the one that was asked.
    async fn same_device(&self, known: &DiceCertificate) -> Result<(), Failure> {
        let mut why = String::new();
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
        self.unknown(why).map(drop)
    }
}
