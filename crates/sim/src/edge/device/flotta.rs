//! The original's agent: a gateway with two poll loops that know of nothing else, and a worker that gets in and beats.
//!
//! The gateway polls from its start with whatever certificate there is, so a new device polls with the one for registration
//! and is refused. It looks at no status.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep, sleep_until};

use super::Device;
use super::life::RETRY;
use super::options::FIELD_POLL;
use crate::edge::client::Answer;

pub(super) async fn live(device: &Device) {
    loop {
        device.joined().await;
        tokio::select! {
            () = device.left() => {}
            () = poll_data(device) => {}
            () = poll_control(device) => {}
            () = work(device) => {}
        }
    }
}

async fn poll_data(device: &Device) {
    loop {
        let _ = device.fetch_configuration().await;
        device.sleep(FIELD_POLL).await;
    }
}

async fn poll_control(device: &Device) {
    let _ = device.say_connection_status().await;
    loop {
        let _ = device.fetch_commands().await;
        device.sleep(FIELD_POLL).await;
    }
}

async fn work(device: &Device) {
    if !device.must_register() {
        return beat(device).await;
    }
    while !get_in(device).await {
        device.sleep(RETRY).await;
    }
    tokio::join!(beat(device), register_again(device));
}

/// Enrols and registers; whether it has a certificate now.
async fn get_in(device: &Device) -> bool {
    let is = |answer: Result<Answer>, code| answer.is_ok_and(|answer| answer.code() == code);
    is(device.enrol().await, 208) && is(device.register().await, 200) && !device.must_register()
}

async fn register_again(device: &Device) {
    if device.options().registers_again {
        device.sleep(RETRY).await;
        let _ = device.register().await;
    }
}

/// The first one comes after a whole period.
async fn beat(device: &Device) {
    let poll = device.options().poll.max(Duration::from_millis(1));
    let mut last = Instant::now();
    loop {
        match device.next_beat(last) {
            Some(due) if due <= Instant::now() => {
                last = Instant::now();
                let _ = device.heartbeat().await;
            }
            // The period may change meanwhile.
            Some(due) => sleep_until(due.min(Instant::now() + poll)).await,
            None => {
                sleep(poll).await;
                last = Instant::now();
            }
        }
    }
}
