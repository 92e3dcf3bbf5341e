//! From end to end: the real operator on a real API server, the real flasher over real TLS, and boards that write down
//! themselves what happens to them. What the FlashJob says is held against that.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod demo;
mod faults;
mod kills;
mod node;

use anyhow::Result;
use flashjob_sim::Operator;
use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::SiteOptions;

/// The version boards are to have.
pub const NEW: &str = "0.2.0";

/// A site with so many boards and a running operator.
pub async fn site(boards: usize, devices: &[&str]) -> Result<(Site<Field>, Operator)> {
    let site = Site::with_boards(SiteOptions::new(boards, devices).await?, &|_| ()).await?;
    let operator = site.operator()?;
    Ok((site, operator))
}
