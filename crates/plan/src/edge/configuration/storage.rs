//! The bucket of a device: one that was claimed for it, or else one of somebody's own.
//!
//! Keys and CA are sent in base64, although JSON would take them as they are: the original's agent decodes them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::edge::wire::{S3, Storage};
use flashjob_api::edge::{EdgeReason, S3Storage, Settings};

use super::reader::Reader;
use super::references::{Kind, Reference};

/// A bucket that was claimed for a device. Keys and CA are as they are, not in base64.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    pub host: String,
    pub port: u16,
    pub name: String,
    pub region: String,
    pub access_key: Vec<u8>,
    pub secret_key: Vec<u8>,
    /// In PEM. Empty: the device trusts the server anyway.
    pub ca: Vec<u8>,
}

pub(super) fn render(
    settings: &Settings,
    bucket: Option<&Bucket>,
    reader: &mut Reader<'_>,
) -> Option<Storage> {
    let said = s3(settings).map(|s3| (claimed(s3), names(s3)));
    match (said, bucket) {
        (Some((true, names)), _) if names != (None, None) => {
            let message = "storage.s3.createOBC is there beside secretName or configMapName";
            reader.problem(EdgeReason::InvalidSpec, message);
            None
        }
        (_, Some(bucket)) => Some(wire(bucket)),
        (Some((_, (Some(secret), Some(config_map)))), None) => {
            read(secret, config_map, reader).as_ref().map(wire)
        }
        (None | Some((_, (None, None))), None) => None,
        (Some(_), None) => {
            let message = "storage.s3 has only one of secretName and configMapName";
            reader.problem(EdgeReason::InvalidSpec, message);
            None
        }
    }
}

/// The Secret and the ConfigMap of a bucket that is somebody's own.
pub(super) fn external(settings: &Settings) -> Option<(Option<&str>, Option<&str>)> {
    s3(settings).filter(|s3| !claimed(s3)).map(names)
}

fn s3(settings: &Settings) -> Option<&S3Storage> {
    settings.storage.as_ref()?.s3.as_ref()
}

/// Whether a bucket is to be claimed for the device.
pub(in crate::edge) fn claimed(s3: &S3Storage) -> bool {
    s3.create_obc.unwrap_or_default()
}

/// The Secret and the ConfigMap that are named.
pub(in crate::edge) fn names(s3: &S3Storage) -> (Option<&str>, Option<&str>) {
    fn name(name: &Option<String>) -> Option<&str> {
        name.as_deref().filter(|name| !name.is_empty())
    }
    (name(&s3.secret_name), name(&s3.config_map_name))
}

/// Reads all of it before it gives up, so that all that is wrong is said at once.
fn read(secret: &str, config_map: &str, reader: &mut Reader<'_>) -> Option<Bucket> {
    let (secret_path, map_path) = ("storage.s3.secretName", "storage.s3.configMapName");
    let mut bytes = |key, optional| {
        let wanted = Reference::new(Kind::Secret, secret, Some(key), secret_path);
        reader.bytes(&Reference { optional, ..wanted })
    };
    let access_key = bytes("AWS_ACCESS_KEY_ID", false);
    let secret_key = bytes("AWS_SECRET_ACCESS_KEY", false);
    let ca = bytes("tls.crt", true);
    let mut text =
        |key| reader.text(&Reference::new(Kind::ConfigMap, config_map, Some(key), map_path));
    let [name, host, region] = ["BUCKET_NAME", "BUCKET_HOST", "BUCKET_REGION"].map(&mut text);
    let port = text("BUCKET_PORT").and_then(|port| match port.trim().parse() {
        Ok(port) if port > 0 => Some(port),
        _ => {
            let key = Some("BUCKET_PORT");
            let wanted = Reference::new(Kind::ConfigMap, config_map, key, map_path);
            reader.unusable(&wanted, "is no port");
            // There is no number that could stand for one that may not be read.
            reader.is_unreadable(&wanted).then_some(0)
        }
    });
    Some(Bucket {
        host: host?,
        port: port?,
        name: name?,
        region: region?,
        access_key: access_key?,
        secret_key: secret_key?,
        ca: ca.unwrap_or_default(),
    })
}

fn wire(bucket: &Bucket) -> Storage {
    let s3 = S3 {
        bucket_host: bucket.host.clone(),
        bucket_port: bucket.port.into(),
        bucket_name: bucket.name.clone(),
        bucket_region: bucket.region.clone(),
        aws_access_key_id: STANDARD.encode(&bucket.access_key),
        aws_secret_access_key: STANDARD.encode(&bucket.secret_key),
        aws_ca_bundle: STANDARD.encode(&bucket.ca),
    };
    Storage { s3: Some(s3) }
}

/// Without the keys.
impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
