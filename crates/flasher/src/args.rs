//! What the flasher is told, all of it through its environment, and checked before anything is touched.
//!
//! The names are the original's where it had one. User text never reaches a shell; it ends up in URLs, in comparisons and
//! in one line of text to the board.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use flashjob_api::flashjob::flash_pod::{self, env};
use flashjob_api::flashjob::{Reason, Verify, VersionPolicy};

use crate::failure::Failure;
use crate::pace::Pace;

/// The file of the Secret with the login to a registry.
const REGISTRY_FILE: &str = ".dockerconfigjson";
/// The largest image that is taken: more than any board has room for.
const MAX_FIRMWARE_BYTES: u64 = 64 << 20;

/// What the flasher is told.
#[derive(Clone, Debug)]
pub struct Input {
    /// The image with the firmware.
    pub firmware: String,
    /// The type of board.
    pub device: String,
    /// The version the device reports afterwards.
    pub version: String,
    /// Where the device answers: `http://host:port`.
    pub board: String,
    /// What the device is told to dial.
    pub external: External,
    /// Where to listen for it.
    pub listen: SocketAddr,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What the device ran when it was discovered.
    pub previous_version: Option<String>,
    /// What counts as done.
    pub verify: Verify,
    /// Whether a device that runs the version already is left alone.
    pub policy: VersionPolicy,
    /// How long all of it may take.
    pub deadline: Duration,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who judges the device's certificate.
    pub attestation: Attestation,
    /// A device that does not show who it is before it is asked is not flashed.
    pub require_identity: bool,
    /// Credentials for the registry, if the file is there.
    pub registry_config: PathBuf,
    /// The registry's own CA: PEM.
    pub registry_ca: Option<String>,
    /// The registry speaks plain HTTP.
    pub plain_http: bool,
    /// The key the firmware must be signed with: PEM.
    pub cosign_key: Option<String>,
    /// The most an image may hold.
    pub max_bytes: u64,
    /// How fast boards live.
    pub pace: Pace,
}

/// What the device is told to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum External {
    /// This.
    Address(Ipv4Addr),
    /// Whatever this name stands for.
    Name(String),
}

/// Who judges the device's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attestation {
    /// The attestation service at this URL.
    Service(String),
    /// We, by these roots: PEM.
    Roots(String),
    /// Nobody: somebody has said so.
    Nobody,
}

/// Where the last words go; wanted even if nothing else can be read.
#[expect(clippy::disallowed_methods, reason = "this is the reader of the environment")]
pub fn termination_log() -> PathBuf {
    std::env::var_os("TERMINATION_LOG").map_or_else(|| "/dev/termination-log".into(), PathBuf::from)
}

impl Input {
    /// Reads and checks the process's own environment.
    #[expect(clippy::disallowed_methods, reason = "this is the reader of the environment")]
    pub fn from_environment() -> Result<Input, Failure> {
        Input::read(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path))
    }

    /// Reads and checks everything. `get` is the environment, `read` a file's text.
    pub fn read(
        get: impl Fn(&str) -> Option<String>,
        read: impl Fn(&str) -> std::io::Result<String>,
    ) -> Result<Input, Failure> {
        let get = |name: &str| get(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let required = |name: &str| get(name).ok_or_else(|| wrong(format!("{name} is not set")));
        // PEM as it is, or the name of a file that has it.
        let pem = |name: &str| match get(name) {
            Some(text) if text.contains("-----BEGIN") => Ok(Some(text)),
            Some(path) => match read(&path) {
                Ok(text) => Ok(Some(text)),
                Err(error) => {
                    Err(wrong(format!("{name} is neither PEM nor a file: {path}: {error}")))
                }
            },
            None => Ok(None),
        };
        let device = required(env::DEVICE)?;
        if device.eq_ignore_ascii_case("linux") {
            let message =
                "DEVICE is linux: such a device takes the name of a container, not firmware";
            return Err(Failure::new(Reason::ProtocolUnsupported, message));
        }
        let path = |name: &str, default: String| PathBuf::from(get(name).unwrap_or(default));
        Ok(Input {
            firmware: required(env::FIRMWARE)?,
            version: required(env::VERSION)?,
            board: board(&required(env::HOST_ENDPOINT)?)?,
            external: external(&required(env::EXTERNAL_IP)?)?,
            listen: number(
                "LISTEN",
                get("LISTEN"),
                SocketAddr::from(([0, 0, 0, 0], flash_pod::PORT)),
            )?,
            attempt: number(env::ATTEMPT, get(env::ATTEMPT), 1)?,
            previous_version: get(env::PREVIOUS_VERSION),
            verify: choice(env::VERIFY, get(env::VERIFY))?,
            policy: choice(env::VERSION_POLICY, get(env::VERSION_POLICY))?,
            deadline: deadline(number(env::DEADLINE_SECONDS, get(env::DEADLINE_SECONDS), 600)?)?,
            certificate: path("SERVER_CRT_PATH", format!("{}/tls.crt", flash_pod::TLS_FOLDER)),
            key: path("SERVER_KEY_PATH", format!("{}/tls.key", flash_pod::TLS_FOLDER)),
            attestation: attestation(&get, pem("ATTESTATION_ROOTS")?)?,
            require_identity: flag("REQUIRE_IDENTITY", get("REQUIRE_IDENTITY"))?,
            registry_config: path(
                "REGISTRY_CONFIG",
                format!("{}/{REGISTRY_FILE}", flash_pod::REGISTRY_FOLDER),
            ),
            registry_ca: pem("REGISTRY_CA")?,
            plain_http: flag("REGISTRY_PLAIN_HTTP", get("REGISTRY_PLAIN_HTTP"))?,
            cosign_key: pem("COSIGN_PUBLIC_KEY")?,
            max_bytes: number("MAX_FIRMWARE_BYTES", get("MAX_FIRMWARE_BYTES"), MAX_FIRMWARE_BYTES)?,
            pace: {
                let speed = number("BOARD_SPEED", get("BOARD_SPEED"), 1.0)?;
                Pace::new(speed)
                    .ok_or_else(|| wrong(format!("BOARD_SPEED is {speed}, less than 1")))?
            },
            device,
        })
    }
}

fn wrong(message: String) -> Failure {
    Failure::new(Reason::InvalidSpec, message)
}

/// More than a year is a slip of the pen, and the end of it cannot always be put into a clock.
fn deadline(seconds: u64) -> Result<Duration, Failure> {
    match seconds {
        1..=31_536_000 => Ok(Duration::from_secs(seconds)),
        _ => Err(wrong(format!("DEADLINE_SECONDS is {seconds}, which makes no sense"))),
    }
}

/// `ip`, `ip:port` or a URL.
fn board(text: &str) -> Result<String, Failure> {
    if text.starts_with("https://") {
        let message = format!("HOST_ENDPOINT is {text}: boards speak plain HTTP");
        return Err(Failure::new(Reason::ProtocolUnsupported, message));
    }
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let authority = bare.split(['/', '?', '#']).next().unwrap_or_default();
    // No percent signs or letters from elsewhere: the operator tells boards apart by what is written here.
    let ascii = |c: char| c.is_ascii_alphanumeric() || "._-:[]".contains(c);
    let parsed = Some(format!("http://{authority}")).filter(|_| authority.chars().all(ascii));
    let parsed = parsed.and_then(|url| url.parse::<reqwest::Url>().ok());
    let plain = |url: &reqwest::Url| {
        url.username().is_empty() && url.password().is_none() && url.host_str().is_some()
    };
    match parsed.filter(plain) {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => {
            Err(wrong(format!("HOST_ENDPOINT is {text:?}: not an address, address:port or URL")))
        }
    }
}

fn external(text: &str) -> Result<External, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(External::Address(address));
    }
    let name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    if name && text.contains(|c: char| c.is_ascii_alphabetic()) {
        return Ok(External::Name(text.to_owned()));
    }
    let message =
        format!("EXTERNAL_IP is {text:?}: boards can dial an IPv4 address, and port 4433 only");
    Err(Failure::new(Reason::AddressUnsupported, message))
}

fn attestation(
    get: &impl Fn(&str) -> Option<String>,
    roots: Option<String>,
) -> Result<Attestation, Failure> {
    let service = get("DICE_AUTH_URL");
    // What a Service of the name dice-auth-service puts into every Pod's environment.
    let host = get("DICE_AUTH_SERVICE_SERVICE_HOST").map(|host| format!("http://{host}:8000"));
    match (get("ATTESTATION").as_deref(), roots, service.or(host)) {
        (Some("none"), _, _) => Ok(Attestation::Nobody),
        (Some(other), _, _) => Err(wrong(format!("ATTESTATION is {other:?}; it may be none"))),
        (None, Some(roots), _) => Ok(Attestation::Roots(roots)),
        (None, None, Some(url)) => match url.parse::<reqwest::Url>() {
            // It is told in the log, so there is no place in it for a password.
            Ok(url) if !url.username().is_empty() || url.password().is_some() => Err(wrong(
                "DICE_AUTH_URL has a login in it; the attestation service takes none".into(),
            )),
            Ok(url) if url.scheme() == "http" || url.scheme() == "https" => {
                Ok(Attestation::Service(url.into()))
            }
            _ => Err(wrong(format!("DICE_AUTH_URL is {url:?}, which is no URL"))),
        },
        (None, None, None) => Err(Failure::new(
            Reason::AttestationUnavailable,
            "nobody is named who could judge the device's certificate: set DICE_AUTH_URL or ATTESTATION_ROOTS (in the \
             ConfigMap flashjob-flasher), or ATTESTATION=none to flash any device that answers",
        )),
    }
}

fn number<T: std::str::FromStr>(
    name: &str,
    given: Option<String>,
    default: T,
) -> Result<T, Failure> {
    match given {
        None => Ok(default),
        Some(text) => {
            text.parse().map_err(|_| wrong(format!("{name} is {text:?}, which makes no sense")))
        }
    }
}

fn choice<T: serde::de::DeserializeOwned + Default>(
    name: &str,
    given: Option<String>,
) -> Result<T, Failure> {
    match given {
        None => Ok(T::default()),
        Some(text) => serde_json::from_value(serde_json::Value::String(text))
            .map_err(|error| wrong(format!("{name}: {error}"))),
    }
}

fn flag(name: &str, given: Option<String>) -> Result<bool, Failure> {
    match given.as_deref() {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(text) => Err(wrong(format!("{name} is {text:?}; it may be 1 or 0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(more: &[(&str, &str)]) -> Result<Input, Failure> {
        let mut env = HashMap::from([
            ("FIRMWARE", "registry/fw:0.2.0"),
            ("DEVICE", "esp32s2"),
            ("VERSION", "0.2.0"),
            ("HOST_ENDPOINT", "192.0.2.11"),
            ("EXTERNAL_IP", "192.0.2.1"),
            ("ATTESTATION", "none"),
        ]);
        env.extend(more.iter().copied());
        let missing = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        Input::read(|name| env.get(name).map(|v| (*v).to_owned()), missing)
    }

    fn refusal(more: &[(&str, &str)]) -> String {
        read(more).err().map_or_else(|| panic!("{more:?} was accepted"), |f| f.to_string())
    }

    #[test]
    fn the_originals_environment_is_enough() {
        let input =
            read(&[("ATTESTATION", ""), ("DICE_AUTH_SERVICE_SERVICE_HOST", "10.96.0.7")]).unwrap();
        assert_eq!(input.board, "http://192.0.2.11");
        assert_eq!(input.listen.port(), 4433);
        assert_eq!(input.attestation, Attestation::Service("http://10.96.0.7:8000/".into()));
        assert_eq!((input.attempt, input.deadline.as_secs()), (1, 600));
    }

    #[test]
    fn a_board_is_an_address_an_address_and_port_or_a_url() {
        let board = |text| read(&[("HOST_ENDPOINT", text)]).unwrap().board;
        assert_eq!(board("192.0.2.11:8080"), "http://192.0.2.11:8080");
        assert_eq!(board("http://192.0.2.11/"), "http://192.0.2.11");
        assert_eq!(board("http://board.local:81/info"), "http://board.local:81");
    }

    #[test]
    fn what_a_board_cannot_dial_is_refused() {
        assert!(refusal(&[("EXTERNAL_IP", "2001:db8::1")]).starts_with("AddressUnsupported"));
        assert!(refusal(&[("EXTERNAL_IP", "192.0.2.1:4444")]).starts_with("AddressUnsupported"));
        assert_eq!(
            read(&[("EXTERNAL_IP", "lb.example")]).unwrap().external,
            External::Name("lb.example".into())
        );
    }

    #[test]
    fn everything_wrong_is_told_in_a_sentence() {
        assert_eq!(refusal(&[("VERSION", " ")]), "InvalidSpec: VERSION is not set");
        assert!(refusal(&[("DEVICE", "Linux")]).starts_with("ProtocolUnsupported"));
        assert!(
            refusal(&[("HOST_ENDPOINT", "https://192.0.2.1")]).starts_with("ProtocolUnsupported")
        );
        for odd in ["a b", "192.0.2.1%31", "192.0.2.①", "b\u{f6}ard"] {
            assert!(refusal(&[("HOST_ENDPOINT", odd)]).contains("HOST_ENDPOINT"), "{odd}");
        }
        assert!(refusal(&[("ATTESTATION", "")]).starts_with("AttestationUnavailable"));
        assert!(refusal(&[("ATTESTATION", "maybe")]).contains("may be none"));
        assert!(refusal(&[("ATTEMPT", "one")]).contains("ATTEMPT"));
        assert!(refusal(&[("VERIFY", "Maybe")]).contains("VERIFY"));
        assert!(refusal(&[("COSIGN_PUBLIC_KEY", "/nowhere")]).contains("neither PEM nor a file"));
        assert!(refusal(&[("REQUIRE_IDENTITY", "yes")]).contains("1 or 0"));
        assert!(refusal(&[("BOARD_SPEED", "0")]).contains("less than 1"));
        for seconds in ["0", "18446744073709551615"] {
            assert!(refusal(&[("DEADLINE_SECONDS", seconds)]).contains("DEADLINE_SECONDS"));
        }
        let login = [("ATTESTATION", ""), ("DICE_AUTH_URL", "http://me:secret@dice:8000")];
        assert!(refusal(&login).contains("login") && !refusal(&login).contains("secret"));
        assert!(
            refusal(&[("HOST_ENDPOINT", "http://:secret@192.0.2.1")]).contains("HOST_ENDPOINT")
        );
    }
}
