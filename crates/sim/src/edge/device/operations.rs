//! The single things a device does. Each returns the answer, and has done by then what the answer says.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use flashjob_api::edge::wire::{
    Command, DeviceConfigurationMessage, Message, MessageResponse, MessageType, RegistrationAnswer,
    directive,
};
use flashjob_pki::{PrivateKey, csr};
use http::header::IF_NONE_MATCH;
use http::{HeaderName, HeaderValue};

use super::message::{Pen, uuid};
use super::state::Configuration;
use super::{Core, Identity, Manner};
use crate::edge::client::{Answer, Call, Client};
use crate::edge::operation::Operation;
use crate::lock;

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// A device that shows a certain certificate.
pub struct As<'a> {
    pub(super) core: &'a Core,
    pub(super) identity: Identity,
}

impl As<'_> {
    /// Asks to be let in: 200 is not yet, 208 is yes.
    pub async fn enrol(&self) -> Result<Answer> {
        let body = self.pen().enrolment(&self.core.options.target_namespace)?;
        self.post("data", Operation::Enrol, body).await
    }

    /// Asks for a certificate, and takes it into use.
    pub async fn register(&self) -> Result<Answer> {
        self.ask_for_certificate(Operation::Register).await
    }

    /// The same, counted as a renewal.
    pub async fn renew(&self) -> Result<Answer> {
        self.ask_for_certificate(Operation::Renew).await
    }

    /// Says how it is.
    pub async fn heartbeat(&self) -> Result<Answer> {
        let said = lock(&self.core.state).says(&self.core.options.id);
        let body = self.pen().heartbeat(said.clone())?;
        let answer = self.post("data", Operation::Heartbeat, body).await?;
        if answer.status.is_success() {
            lock(&self.core.state).was_heard(&said);
        }
        Ok(answer)
    }

    /// Asks what it is to run, and takes that over. Ours says what it has already.
    pub async fn fetch_configuration(&self) -> Result<Answer> {
        let operation = Operation::FetchConfiguration;
        self.heed(self.ask(operation, self.question()?).await?)
    }

    /// The same, but the server is asked to hold the answer until there is something new.
    pub async fn await_configuration(&self) -> Result<Answer> {
        let options = &self.core.options;
        let held = options.held();
        let prefer = HeaderValue::try_from(format!("wait={}", held.as_secs()))?;
        let (call, client) = (self.question()?.with(PREFER, prefer), self.core.other_client());
        let deadline = options.deadline + held;
        self.heed(self.ask_over(client, Operation::FetchConfiguration, call, deadline).await?)
    }

    fn question(&self) -> Result<Call> {
        let call = Call::get(self.path("data", "in"));
        let etag = self.etag().filter(|_| self.core.options.manner == Manner::Ours);
        Ok(match etag {
            Some(etag) => call.with(IF_NONE_MATCH, HeaderValue::try_from(etag)?),
            None => call,
        })
    }

    /// Takes over the configuration that is in an answer.
    fn heed(&self, answer: Answer) -> Result<Answer> {
        if let Some(message) = self.message(&answer)
            && message.directive == directive::DEVICE
        {
            self.core.configure(message, answer.etag());
        }
        Ok(answer)
    }

    /// Asks what its gateway is to do. It can disconnect and nothing else: no server says anything else.
    pub async fn fetch_commands(&self) -> Result<Answer> {
        let call = Call::get(self.path("control", "in"));
        let answer = self.ask(Operation::FetchCommands, call).await?;
        if let Some(message) = self.message(&answer)
            && message.type_ == MessageType::Command
        {
            match serde_json::from_value::<Command>(message.content) {
                Ok(said) if said.command == Command::DISCONNECT => self.core.disconnect(),
                Ok(said) => self.core.unreadable(format!("the command {}", said.command)),
                Err(error) => self.core.unreadable(format!("a command: {error}")),
            }
        }
        Ok(answer)
    }

    /// Its gateway says that it is there.
    pub async fn say_connection_status(&self) -> Result<Answer> {
        let body = self.pen().connection_status()?;
        self.post("control", Operation::SayConnectionStatus, body).await
    }

    /// Anything, for what no agent would send. The path is below the base.
    pub async fn send(&self, operation: Operation, call: Call) -> Result<Answer> {
        self.ask(operation, call).await
    }

    async fn ask_for_certificate(&self, operation: Operation) -> Result<Answer> {
        let options = &self.core.options;
        let key = {
            let mut state = lock(&self.core.state);
            let shown = state.credential(&self.identity, &options.clock)?;
            state.key(options.manner, &shown)?
        };
        let request = csr::create(&key, &options.id)?;
        let answer = self.post("data", operation, self.pen().registration(request)?).await?;
        if answer.code() == 200
            && let Err(error) = self.core.take(&answer, &key)
        {
            self.core.unreadable(format!("the answer to a registration: {error:#}"));
        }
        Ok(answer)
    }

    async fn post(&self, channel: &str, operation: Operation, body: Bytes) -> Result<Answer> {
        self.ask(operation, Call::post(self.path(channel, "out"), body)).await
    }

    async fn ask(&self, operation: Operation, call: Call) -> Result<Answer> {
        let (client, deadline) = (self.core.client(operation), self.core.options.deadline);
        self.ask_over(client, operation, call, deadline).await
    }

    async fn ask_over(
        &self,
        client: &Client,
        operation: Operation,
        call: Call,
        deadline: Duration,
    ) -> Result<Answer> {
        let core = self.core;
        let credential = lock(&core.state).credential(&self.identity, &core.options.clock)?;
        let answer = core.wire.carry(operation, client, &credential, &call, deadline).await;
        let now = core.options.clock.now();
        core.note(|ledger| Some(ledger.tell(now, operation, &answer)));
        answer
    }

    fn path(&self, channel: &str, direction: &str) -> String {
        format!("/{channel}/{}/{direction}", self.core.options.id)
    }

    fn pen(&self) -> Pen<'_> {
        let options = &self.core.options;
        let message_id = uuid(&mut lock(&self.core.state).dice);
        Pen { manner: options.manner, id: &options.id, message_id, now: options.clock.now() }
    }

    fn etag(&self) -> Option<String> {
        lock(&self.core.state).configuration.as_ref()?.etag.clone()
    }

    /// The message in an answer. The original's gateway does not look at the status.
    fn message(&self, answer: &Answer) -> Option<Message> {
        let heeded = self.core.options.manner == Manner::Flotta || answer.code() == 200;
        if answer.body.is_empty() || !heeded {
            return None;
        }
        let read = answer.json::<Message>();
        read.map_err(|error| self.core.unreadable(format!("{error:#}"))).ok()
    }
}

impl Core {
    fn configure(&self, message: Message, etag: Option<&str>) {
        let read = match serde_json::from_value::<DeviceConfigurationMessage>(message.content) {
            Ok(read) => read,
            Err(error) => return self.unreadable(format!("a configuration: {error}")),
        };
        let configuration = Configuration::new(read, etag);
        let (version, workloads) = (configuration.version.clone(), configuration.workloads.clone());
        lock(&self.state).configuration = Some(configuration);
        let now = self.options.clock.now();
        self.note(|ledger| ledger.configure(now, &version, workloads));
    }

    fn take(&self, answer: &Answer, key: &PrivateKey) -> Result<()> {
        let response: MessageResponse = answer.json()?;
        let read: RegistrationAnswer = serde_json::from_value(response.content)?;
        let clock = &self.options.clock;
        let bundle = read.ca_bundle.as_deref().filter(|_| self.options.manner == Manner::Ours);
        let own = lock(&self.state).take(&read.certificate, key, bundle, clock)?;
        self.note(|ledger| ledger.take(clock.now(), &own));
        Ok(())
    }

    fn disconnect(&self) {
        lock(&self.state).leave(self.options.manner);
        let (now, keeps) = (self.options.clock.now(), self.options.manner == Manner::Flotta);
        self.note(|ledger| Some(ledger.disconnect(now, keeps)));
        self.joined.send_replace(false);
    }

    fn unreadable(&self, what: String) {
        self.note(|ledger| {
            ledger.unreadable.push(what);
            None
        });
    }
}
