//! Makes certificates: the one that boards pin, and those that it signs.

use anyhow::{Result, anyhow};
use flashjob_pki::{CertifiedKey, Chain, Error, PrivateKey, Profile};
use jiff::{SignedDuration, Timestamp};

use super::boards::{BOARDS_ASK_FOR, chains_to, is_for_boards, message};
use super::wrong_own;

/// As long as boards live. They do not look.
const PINNED_DAYS: u32 = 7300;
/// How much a clock that reads the certificate may be behind ours.
const BEFORE: SignedDuration = SignedDuration::from_hours(1);

/// A certificate for boards to pin: its own CA, so that it can sign others later.
pub fn pinned(now: Timestamp) -> Result<CertifiedKey> {
    let (not_before, not_after) = validity(PINNED_DAYS, now)?;
    let profile = Profile::ca(BOARDS_ASK_FOR, not_before, not_after);
    PrivateKey::generate().and_then(|key| CertifiedKey::self_signed(key, &profile)).map_err(failed)
}

/// A certificate that `pinned` has signed, with `pinned` after it.
pub fn leaf(pinned: &CertifiedKey, days: u32, now: Timestamp) -> Result<CertifiedKey> {
    let (not_before, not_after) = validity(days, now)?;
    let profile = Profile::leaf(BOARDS_ASK_FOR, not_before, not_after);
    let key = PrivateKey::generate().map_err(failed)?;
    let made = pinned.sign(&key.public(), &profile).map_err(failed)?;
    let chain = Chain::new(made, [pinned.leaf().clone()]);
    let pair = CertifiedKey::new(chain, key).map_err(|error| wrong_own(&message(&error)))?;
    is_for_boards(&pair).map_err(|why| wrong_own(&why))?;
    if !chains_to(&pair, pinned) {
        return Err(wrong_own("boards that pin the other one would not take it"));
    }
    Ok(pair)
}

fn validity(days: u32, now: Timestamp) -> Result<(Timestamp, Timestamp)> {
    let until = now.checked_add(SignedDuration::from_hours(24 * i64::from(days)))?;
    Ok(((now - BEFORE).max(Timestamp::UNIX_EPOCH), until))
}

fn failed(error: Error) -> anyhow::Error {
    anyhow!(message(&error))
}
