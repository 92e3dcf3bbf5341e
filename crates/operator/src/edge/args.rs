//! Flags of Edge, and the environment of the original.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgAction, Args};
use flashjob_pki::Chain;
use flashjob_plan::edge::facts::Settings;
use flashjob_plan::edge::storage::{Address, Route, Server, StorageSettings};

use super::certificates::CertificateSettings;
use crate::process::args::{Bind, address};

#[derive(Args, Clone, Debug)]
#[group(skip)]
#[command(next_help_heading = "Edge")]
pub struct EdgeOptions {
    /// Where devices are served
    #[arg(long, default_value = ":8043", value_name = "ADDRESS", value_parser = address)]
    pub edge_bind_address: Bind,

    /// The namespaces that devices may be in. Requests for approval are in the first
    #[arg(long, default_value = "default", value_name = "NAMESPACES", value_delimiter = ',',
          value_parser = namespace)]
    pub edge_namespaces: Vec<String>,

    /// More names and addresses that devices reach the server by, beside DOMAIN
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub edge_server_names: Vec<String>,

    /// How many connections of devices may be open at once
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub edge_max_connections: u32,

    /// The name that devices reach the server by
    #[arg(long, env = "DOMAIN", default_value = "project-flotta.io", value_name = "NAME")]
    pub edge_domain: String,

    /// Whether the server's certificate is good for localhost, too
    #[arg(long, env = "TLS_LOCALHOST_ENABLED", default_value = "true", value_name = "BOOL", value_parser = boolean,
          action = ArgAction::Set)]
    pub edge_localhost: bool,

    /// How many days a device's certificate is good
    #[arg(long, env = "CLIENT_CERT_EXPIRATION_DAYS", default_value_t = 365, value_name = "DAYS",
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub edge_client_days: u32,

    /// Let devices in without anybody's leave
    #[arg(long, env = "AUTO_APPROVAL_PROCESS", default_value = "true", value_name = "BOOL", value_parser = boolean,
          action = ArgAction::Set)]
    pub edge_auto_approval: bool,

    /// Make an ObjectBucketClaim for each device, where the cluster has such
    #[arg(long, env = "OBC_AUTO_CREATE", default_value = "true", value_name = "BOOL", value_parser = boolean,
          action = ArgAction::Set)]
    pub edge_auto_buckets: bool,

    /// The storage class of ObjectBucketClaims
    #[arg(long, default_value = "openshift-storage.noobaa.io", value_name = "NAME")]
    pub edge_obc_storage_class: String,

    /// Where devices reach the S3 server of claimed buckets. Without it a Route or each claim's ConfigMap says so
    #[arg(long, value_name = "HOST[:PORT]")]
    pub edge_s3_address: Option<Address>,

    /// A file with the CA of that server, in PEM
    #[arg(long, value_name = "FILE")]
    pub edge_s3_ca: Option<PathBuf>,

    /// The Pod that this process is in, for the label that the Service selects
    #[arg(long, env = "POD_NAME", hide = true)]
    pub pod_name: Option<String>,
}

impl EdgeOptions {
    /// The settings decisions depend on.
    pub fn settings(&self) -> Settings {
        let mut namespaces = self.edge_namespaces.clone();
        let mut seen = std::collections::HashSet::new();
        namespaces.retain(|namespace| seen.insert(namespace.clone()));
        Settings {
            auto_approval: self.edge_auto_approval,
            namespaces,
            client_days: self.edge_client_days,
        }
    }

    /// How buckets are claimed.
    pub fn storage(&self) -> anyhow::Result<StorageSettings> {
        let ca = match &self.edge_s3_ca {
            Some(file) => {
                let wrong = || format!("--edge-s3-ca {} has no certificates", file.display());
                let ca = fs::read(file).with_context(wrong)?;
                Chain::from_pem(&ca).with_context(wrong)?;
                ca
            }
            None => Vec::new(),
        };
        Ok(StorageSettings {
            auto: self.edge_auto_buckets,
            class: self.edge_obc_storage_class.clone(),
            server: Server { address: self.edge_s3_address.clone(), route: Route::Unknown, ca },
        })
    }

    pub fn certificates(&self) -> CertificateSettings {
        CertificateSettings::new(
            &self.edge_domain,
            &self.edge_server_names,
            self.edge_localhost,
            self.edge_client_days,
        )
    }
}

fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = name.starts_with('-') || name.ends_with('-');
    if name.is_empty() || name.len() > 63 || ends || !name.bytes().all(inside) {
        return Err("expected names of namespaces, such as default,plant-1".to_owned());
    }
    Ok(name.to_owned())
}

/// As Go reads them: the original's manifests have any of these.
fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
