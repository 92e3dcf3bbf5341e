//! The bucket of a claim that is bound, as its ConfigMap and its Secret say, and the server that devices reach it by.
//!
//! Both come from whoever provides buckets. What is in them may be meant for the inside of the cluster only, which the address of
//! the server mostly is; so how Edge was started comes first, and then a Route that leads there from outside.

use std::fmt;
use std::str::FromStr;

use super::claim::{Place, pending};
use super::decide::Claim;
use super::route::{ROUTE, ROUTE_NAMESPACE, Route};
use crate::edge::configuration::{Bucket, ConfigMapData, Found, Material, Needs, SecretData};
use crate::edge::problem::Problem;

/// Of HTTPS.
pub(super) const PORT: u16 = 443;
/// What the original sends; servers of one's own have no regions.
const REGION: &str = "ignore";
/// Bytes of a host, of the name of a bucket, and of each part of a key. Those there are have fewer.
const LONGEST: usize = 1024;

/// Where S3 is served, by HTTPS: `HOST` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected HOST or HOST:PORT, such as s3.example.com:443".to_owned();
        // What is in brackets has colons of its own.
        let end = text.find(']').map_or(0, |end| end + 1);
        let (host, port) = match text[end..].find(':') {
            Some(colon) => (&text[..end + colon], &text[end + colon + 1..]),
            None => (text, "443"),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.len() <= 253 && host.chars().all(plain),
        };
        let port = port.parse().ok().filter(|port| *port > 0 && is_host).ok_or_else(wrong)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// The server of all claimed buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// As Edge was told when it was started.
    pub address: Option<Address>,
    /// Counts where Edge was told none.
    pub route: Route,
    /// In PEM. Empty: devices trust it anyway.
    pub ca: Vec<u8>,
}

impl Server {
    /// Its address; `None`: as the ConfigMap of each claim says.
    fn address(&self) -> Result<Option<&Address>, Lack> {
        match (&self.address, &self.route) {
            (Some(told), _) => Ok(Some(told)),
            (None, Route::At(address)) => Ok(Some(address)),
            (None, Route::None) => Ok(None),
            (None, Route::Unknown) => Err(Lack::RouteUnknown),
            (None, Route::WithoutHost) => Err(Lack::RouteHost),
        }
    }
}

/// What a claim comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub bucket: Option<Bucket>,
    /// For the status of the device; `None`: it is to have no claim.
    pub said: Option<Result<(), Problem>>,
    /// Something was not read yet.
    pub unread: bool,
}

impl Claim {
    /// Adds what has to be read for it.
    pub fn needs(&self, name: &str, needs: &mut Needs) {
        if *self == Self::Bound {
            needs.secrets.insert(name.to_owned());
            needs.config_maps.insert(name.to_owned());
        }
    }

    /// What the device gets of it. `tried`: why a claim that is missing could not be made so far.
    pub fn read(
        self,
        device: Place<'_>,
        server: &Server,
        material: &dyn Material,
        tried: Option<&Problem>,
    ) -> Claimed {
        let said = |problem| Claimed { said: Some(Err(problem)), ..Claimed::default() };
        match self {
            Self::None => Claimed::default(),
            Self::Missing => said(
                tried.cloned().unwrap_or_else(|| pending(format!("the {device} is being made"))),
            ),
            Self::Lacking(problem) | Self::Waits(problem) => said(problem),
            Self::Bound => {
                let Place { namespace, name, .. } = device;
                // Who may not read them sees where they would be.
                let secret = material.secret(namespace, name).or_stand_in();
                let config_map = material.config_map(namespace, name).or_stand_in();
                match bucket(server, &config_map, &secret) {
                    Ok(Some(bucket)) => {
                        Claimed { bucket: Some(bucket), said: Some(Ok(())), unread: false }
                    }
                    Ok(None) => Claimed { unread: true, ..Claimed::default() },
                    Err(lack) => said(lack.problem(device)),
                }
            }
        }
    }
}

/// What is missing for a claim.
enum Lack {
    NoSecret,
    NoConfigMap,
    /// Of the Secret or the ConfigMap.
    Key(&'static str, &'static str),
    RouteUnknown,
    RouteHost,
}

impl Lack {
    fn problem(self, device: Place<'_>) -> Problem {
        let Place { namespace, name, .. } = device;
        let what = match self {
            Self::NoSecret => format!("there is no Secret {namespace}/{name}"),
            Self::NoConfigMap => format!("there is no ConfigMap {namespace}/{name}"),
            Self::Key(kind, key) => {
                format!("the {kind} {namespace}/{name} has no {key} that can be used")
            }
            Self::RouteUnknown => {
                format!("whether the Route {ROUTE_NAMESPACE}/{ROUTE} is there is not known yet")
            }
            Self::RouteHost => {
                format!("the Route {ROUTE_NAMESPACE}/{ROUTE} has no host that can be used")
            }
        };
        pending(format!("the {device} is Bound, and {what}"))
    }
}

/// `None`: not all was read yet.
fn bucket(
    server: &Server,
    config_map: &Found<ConfigMapData>,
    secret: &Found<SecretData>,
) -> Result<Option<Bucket>, Lack> {
    let (config_map, secret) = match (config_map, secret) {
        (Found::There(config_map), Found::There(secret)) => (config_map, secret),
        (Found::Missing, _) => return Err(Lack::NoConfigMap),
        (Found::There(_), Found::Missing) => return Err(Lack::NoSecret),
        _ => return Ok(None),
    };
    let said = |key| {
        let text = config_map.get(key).map(|text| text.trim());
        text.filter(|text| !text.is_empty() && text.len() <= LONGEST)
    };
    let needed = |key| said(key).ok_or(Lack::Key("ConfigMap", key));
    let part = |key| {
        let part = secret.get(key).filter(|part| !part.is_empty() && part.len() <= LONGEST);
        part.cloned().ok_or(Lack::Key("Secret", key))
    };
    let Address { host, port } = match server.address()? {
        Some(address) => address.clone(),
        None => {
            let port = said("BUCKET_PORT").map_or(Ok(PORT), |port| match port.parse() {
                Ok(port) if port > 0 => Ok(port),
                _ if config_map.stands_in() => Ok(0),
                _ => Err(Lack::Key("ConfigMap", "BUCKET_PORT")),
            });
            Address { host: needed("BUCKET_HOST")?.to_owned(), port: port? }
        }
    };
    Ok(Some(Bucket {
        host,
        port,
        name: needed("BUCKET_NAME")?.to_owned(),
        region: said("BUCKET_REGION").unwrap_or(REGION).to_owned(),
        access_key: part("AWS_ACCESS_KEY_ID")?,
        secret_key: part("AWS_SECRET_ACCESS_KEY")?,
        ca: server.ca.clone(),
    }))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests;
