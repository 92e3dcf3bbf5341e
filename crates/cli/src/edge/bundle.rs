//! `kubectl flashjob edge bundle`: what a device image needs to register.
//!
//! The registration certificate is the one that the operator hands out: the newest that is good and that the present CA has
//! signed. One of a CA that is being replaced would be dead as soon as that is retired.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use flashjob_pki::Certificate;
use flashjob_plan::edge::certificates::{Found, current_registration};

use crate::args::Connection;
use crate::clock;
use crate::edge::SYSTEM;
use crate::edge::args::BundleArgs;
use crate::edge::ca::ca;
use crate::edge::device::days_until;
use crate::edge::secrets::{Secrets, failed};
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::shell::{Shell, clean};
use crate::table::day;

pub async fn run(to: &Connection, wanted: &BundleArgs, shell: &Shell) -> Result<Exit> {
    let server = Server::read(&wanted.server)?;
    let place = |name: &str| wanted.out.join(name);
    let places = ["ca.pem", "cert.pem", "key.pem", "config.toml"].map(place);
    refuse_to_overwrite(&places, wanted.force)?;
    let connected = to.open().await?;
    let home = &wanted.home.operator_namespace;
    let secrets = Secrets::read(&connected.client, home).await;
    let secrets = secrets.map_err(|error| failed("read", home, &error))?;
    let (now, ca) = (clock::now(), ca(&secrets)?);
    let facts = secrets.facts(None);
    let name = current_registration(&facts, now).ok_or_else(|| {
        anyhow!(
            "no registration certificate in namespace {home} can be used; the operator makes one when it works, see `{}`",
            SYSTEM.check
        )
    })?;
    let of_it = secrets.registrations.iter().find(|registration| registration.secret == name);
    let Some(registration) = of_it.and_then(|registration| registration.found.read()) else {
        bail!("Secret {name} cannot be read");
    };

    let texts = [
        ca.pair.chain().pem(),
        registration.chain().pem(),
        registration.key().pem(),
        config(&server.text),
    ];
    let files: Vec<(PathBuf, &[u8])> =
        places.into_iter().zip(texts.iter().map(String::as_bytes)).collect();
    files::make_folder(&wanted.out)?;
    if wanted.force {
        files::write_over(&files)?
    } else {
        files::write_new(&files)?
    }
    for (path, _) in &files {
        shell.out(&format!("{}\n", path.display()))?;
    }
    let end = registration.leaf().not_after();
    shell.say(&format!(
        "From Secret {name}; boxes can register with it until {} ({} days). config.toml lacks client-id: each box adds its own, \
         see the comment in it. Keep key.pem as a secret.",
        day(end),
        days_until(end, now)
    ));
    if let Found::Read(pair) = &secrets.server {
        warn_of_name(&server, pair.leaf(), shell);
    }
    Ok(Exit::Done)
}

fn refuse_to_overwrite(places: &[PathBuf], force: bool) -> Result<()> {
    let is_folder = |path: &&PathBuf| path.is_dir();
    if let Some(folder) = places.iter().find(is_folder) {
        bail!("{} is a folder", folder.display());
    }
    let there = places.iter().find(|path| files::is_there(path)).map(PathBuf::as_path);
    match there.filter(|_| !force) {
        Some(path) => bail!(
            "{} is there already, and nothing was written; --force writes over it, or give another --out",
            Path::display(path)
        ),
        None => Ok(()),
    }
}

/// Devices trust nobody whose certificate does not have the name they dial.
fn warn_of_name(server: &Server, leaf: &Certificate, shell: &Shell) {
    let names = leaf.names();
    if !names.iter().any(|name| server.is(name)) {
        shell.note(&format!(
            "the server's certificate is for {}, and not for {}: devices would not trust it. Set DOMAIN or --edge-server-names \
             of the operator",
            clean(&names.join(", ")),
            server.host
        ));
    }
}

/// Where devices reach the server.
#[derive(Debug, PartialEq)]
struct Server {
    text: String,
    /// As a certificate has it: in lower case, and an address without brackets.
    host: String,
}

impl Server {
    fn read(text: &str) -> Result<Server, UsageError> {
        let wrong = || {
            UsageError(format!(
                "--server: {} is no HOST:PORT, such as edge.example:8043",
                clean(text)
            ))
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').filter(|inner| inner.contains(':')),
            None => Some(host).filter(|host| !host.contains(':')),
        };
        let bare = bare.ok_or_else(wrong)?;
        let letter = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        let port: u16 = port.parse().map_err(|_| wrong())?;
        if bare.is_empty() || !bare.chars().all(letter) || port == 0 {
            return Err(wrong());
        }
        let address = bare.parse::<IpAddr>().map(|address| address.to_string());
        let named = address.unwrap_or_else(|_| bare.to_ascii_lowercase());
        Ok(Server { text: format!("{host}:{port}"), host: named })
    }

    /// Whether a name in a certificate is this one. A star stands for one label.
    fn is(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let wild = || {
            let rest = name.strip_prefix("*.")?;
            let (_, parent) = self.host.split_once('.')?;
            Some(parent == rest)
        };
        name == self.host || wild().unwrap_or_default()
    }
}

/// As yggdrasil reads it.
fn config(server: &str) -> String {
    format!(
        "\
# /etc/yggdrasil/config.toml. client-id is the name of the device and different on each box, so it is not in the image. Once, at
# the first start of the box:
#   echo \"client-id = \\\"$(cat /etc/machine-id)\\\"\" >>/etc/yggdrasil/config.toml
log-level = \"info\"
cert-file = \"/etc/pki/consumer/cert.pem\"
key-file = \"/etc/pki/consumer/key.pem\"
ca-root = [\"/etc/pki/consumer/ca.pem\"]
path-prefix = \"api/flotta-management/v1\"
protocol = \"http\"
server = \"{server}\"
"
    )
}

#[cfg(test)]
mod tests;
