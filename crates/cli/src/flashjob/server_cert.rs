//! `kubectl flashjob server-cert`: the certificate that boards trust, from making it to renewing it.
//!
//! What goes wrong here is found out by boards that do not call back, days later and far away. So whatever is put into the
//! Secret was read back and judged the way a board and the flasher judge it. A private key is written to the Secret and to
//! one file, and nowhere else.

mod boards;
mod make;
mod secret;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use flashjob_pki::CertifiedKey;
use jiff::Timestamp;

use crate::args::Connection;
use crate::clock;
use crate::exit::Exit;
use crate::files;
use crate::flashjob::args::{Leaf, ServerCertCommand};
use crate::shell::Shell;
use crate::table::day;

pub use boards::{BOARDS_ASK_FOR, is_for_boards};
pub use secret::{NAME as SECRET, pair as of_secret};

/// The certificate that boards pin, in the folder of `create` and `renew`.
const PINNED_CRT: &str = "pinned.crt";
/// Its key.
const PINNED_KEY: &str = "pinned.key";

pub async fn run(to: &Connection, command: ServerCertCommand, shell: &Shell) -> Result<Exit> {
    let now = clock::now();
    match command {
        ServerCertCommand::Create { dir, leaf } => create(to, &dir, leaf, now, shell).await?,
        ServerCertCommand::Import { cert, key } => import(to, &cert, &key, shell).await?,
        ServerCertCommand::Renew { dir, leaf } => renew(to, &dir, leaf, now, shell).await?,
    }
    Ok(Exit::Done)
}

async fn create(
    to: &Connection,
    dir: &Path,
    leaf: Leaf,
    now: Timestamp,
    shell: &Shell,
) -> Result<()> {
    let to = to.open().await?;
    let namespace = &to.namespace;
    // Boards may pin what is there already; then a new one would shut them out.
    if secret::get(&to).await?.is_some() {
        bail!(
            "there is a Secret {SECRET} in namespace {namespace} already, and boards may trust what is in it; nothing was \
             changed\nif the pinned pair is yours: kubectl flashjob server-cert renew --dir {dir} -n {namespace}\n\
             if no board needs it any more: kubectl delete secret {SECRET} -n {namespace}, then again",
            dir = dir.display()
        );
    }
    for name in [PINNED_CRT, PINNED_KEY] {
        let path = dir.join(name);
        if files::is_there(&path) {
            bail!(
                "{} is there already, and is not touched\nto use it: kubectl flashjob server-cert renew --dir {} -n \
                 {namespace}\nto make another: give another --dir",
                path.display(),
                dir.display()
            );
        }
    }
    let pinned = make::pinned(now)?;
    let pair = make::leaf(&pinned, leaf.days, now)?;
    files::make_folder(dir)?;
    files::write_new(&[
        (dir.join(PINNED_KEY), pinned.key().pem().as_bytes()),
        (dir.join(PINNED_CRT), pinned.chain().pem().as_bytes()),
    ])?;
    if let Err(error) = secret::create(&to, &pair).await {
        let again = format!("kubectl flashjob server-cert renew --dir {} -n", dir.display());
        bail!(
            "{error:#}\n{PINNED_CRT} and {PINNED_KEY} are made; to go on with them: {again} {namespace}"
        );
    }
    shell.out(&format!("secret/{SECRET} created\n"))?;
    shell.say(&format!(
        "{} goes into the firmware of your boards (certs/server.crt), {} into a safe place: whoever has it can flash them. \
         Renew by {}, and no board has to be flashed for it.",
        dir.join(PINNED_CRT).display(),
        dir.join(PINNED_KEY).display(),
        day(pair.leaf().not_after())
    ));
    Ok(())
}

async fn import(to: &Connection, certificate: &Path, key: &Path, shell: &Shell) -> Result<()> {
    let pair = read(certificate, key)?;
    is_for_boards(&pair).map_err(|why| anyhow!("{}: {why}", certificate.display()))?;
    if !boards::has_ca(&pair) {
        shell.note(&format!(
            "no certificate in {} is a CA (CA:TRUE, and keyCertSign where it has a keyUsage). If boards pin one of these, it cannot be renewed without flashing them: see \
             docs/certificates.md",
            certificate.display()
        ));
    }
    let to = to.open().await?;
    match secret::get(&to).await? {
        None => {
            secret::create(&to, &pair).await?;
            shell.out(&format!("secret/{SECRET} created\n"))
        }
        Some(present) => {
            secret::replace(&to, &present, &pair).await?;
            shell.out(&format!("secret/{SECRET} replaced\n"))?;
            if secret::pair(&present)
                .is_ok_and(|before| !boards::have_one_in_common(&before, &pair))
            {
                shell.note(
                    "it has no certificate in common with what was there; boards trust the one they pin, and no other",
                );
            }
            Ok(())
        }
    }
}

async fn renew(
    to: &Connection,
    dir: &Path,
    leaf: Leaf,
    now: Timestamp,
    shell: &Shell,
) -> Result<()> {
    let path = dir.join(PINNED_CRT);
    let pinned = read(&path, &dir.join(PINNED_KEY))?;
    if !pinned.leaf().is_ca() {
        bail!(
            "{} is no CA (basicConstraints CA:TRUE and, if it has a keyUsage, keyCertSign), so it cannot sign others, and boards that pin it trust it alone\nto \
             use it as it is: kubectl flashjob server-cert import --cert {} --key {}",
            path.display(),
            path.display(),
            dir.join(PINNED_KEY).display()
        );
    }
    let pair = make::leaf(&pinned, leaf.days, now)?;
    let to = to.open().await?;
    let present = secret::get(&to).await?;
    match present.as_ref().map(secret::pair) {
        Some(Ok(before)) if !boards::chains_to(&before, &pinned) => bail!(
            "what is in the Secret {SECRET} of namespace {} is not signed by {}; boards that trust it would not trust the new \
             one. Nothing was changed\ngive the --dir with the certificate they pin; or, to change what is shown to boards \
             on purpose, use `kubectl flashjob server-cert import` (see \"Replace it\" in docs/certificates.md)",
            to.namespace,
            path.display()
        ),
        Some(Err(why)) => {
            shell.note(&format!("what was in the Secret could not be used by any flasher: {why}"));
        }
        _ => {}
    }
    let done = match &present {
        Some(present) => {
            secret::replace(&to, present, &pair).await?;
            "renewed"
        }
        None => {
            secret::create(&to, &pair).await?;
            "created"
        }
    };
    shell.out(&format!("secret/{SECRET} {done}\n"))?;
    if pinned.leaf().is_rsa() {
        shell.note(
            "the pinned key is RSA and the new one P-256; boards whose mbedTLS knows no ECDSA need an RSA one, made with \
             openssl: see docs/certificates.md",
        );
    }
    shell.say(&format!(
        "The next flash Pod shows it. It is good until {}; no board has to be flashed for it.",
        day(pair.leaf().not_after())
    ));
    Ok(())
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey> {
    let chain = files::read(certificate)?;
    let private = files::read(key)?;
    boards::read(&chain, &private)
        .map_err(|why| anyhow!("{} with {}: {why}", certificate.display(), key.display()))
}

/// What was made here and cannot be read here.
fn wrong_own(why: &str) -> anyhow::Error {
    anyhow!("the certificate that was made cannot be used: {why}")
}
