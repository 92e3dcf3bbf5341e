//! The CRDs we need may come later than we do: they are waited for and named, never a reason to crash.

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;

use crate::process::client::{error_message, in_time};

/// How long discovery may take to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A CRD as discovery knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Group and version.
    pub group_version: &'static str,
    /// The plural.
    pub resource: &'static str,
    /// The CRD's name, for people.
    pub crd: &'static str,
    /// Where it comes from, for people.
    pub comes_from: &'static str,
}

/// The CRDs that have not been seen yet.
#[derive(Clone)]
pub struct MissingCrds(watch::Sender<Discovery>);

struct Discovery {
    missing: Vec<Needed>,
    /// Discovery was asked at least once.
    asked: bool,
}

impl MissingCrds {
    /// Everything is missing until it is seen.
    pub fn new(needed: &[Needed]) -> MissingCrds {
        MissingCrds(watch::Sender::new(Discovery { missing: needed.to_vec(), asked: false }))
    }

    /// What is missing now, in one line; `None` when nothing is.
    pub fn message(&self) -> Option<String> {
        let names: Vec<String> = self
            .0
            .borrow()
            .missing
            .iter()
            .map(|n| format!("{} ({})", n.crd, n.comes_from))
            .collect();
        (!names.is_empty()).then(|| format!("waiting for the CRD {}", names.join(" and ")))
    }

    /// Returns once this CRD is there.
    pub async fn wait_for(&self, needed: Needed) {
        let mut missing = self.0.subscribe();
        // The sender lives in `self`, so this ends only when the CRD is there.
        let _ = missing.wait_for(|discovery| !discovery.missing.contains(&needed)).await;
    }

    /// Returns once it is known what is missing.
    pub async fn known(&self) {
        let _ = self.0.subscribe().wait_for(|discovery| discovery.asked).await;
    }

    /// Whether it is known that this CRD is not there.
    pub fn lacks(&self, needed: Needed) -> bool {
        let discovery = self.0.borrow();
        discovery.asked && discovery.missing.contains(&needed)
    }

    /// Asks discovery until everything has been there once.
    pub async fn discover_all(self, client: Client) {
        let mut pause = Duration::from_millis(250);
        let mut said: Option<String> = None;
        loop {
            let missing = self.0.borrow().missing.clone();
            for needed in missing {
                if is_there(&client, needed).await {
                    self.0.send_modify(|discovery| discovery.missing.retain(|n| *n != needed));
                }
            }
            self.0.send_modify(|discovery| discovery.asked = true);
            let message = self.message();
            match &message {
                None => return,
                Some(message) if said.as_ref() != Some(message) => tracing::warn!("{message}"),
                Some(_) => {}
            }
            said = message;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

/// Says whether a CRD is there; not, if that cannot be found out now.
async fn is_there(client: &Client, needed: Needed) -> bool {
    discover(client, needed).await.unwrap_or_else(|error| {
        tracing::warn!(
            error = error_message(&error),
            "asking the API server for {} failed",
            needed.crd
        );
        false
    })
}

/// Whether a CRD is there. A group is asked for its kinds only when it is there: otherwise the answer is a 404 that reads like a fault.
pub async fn discover(client: &Client, needed: Needed) -> kube::Result<bool> {
    let groups = in_time(CALL_TIMEOUT, client.list_api_groups()).await?.groups;
    let mut versions = groups.into_iter().flat_map(|group| group.versions);
    if !versions.any(|version| version.group_version == needed.group_version) {
        return Ok(false);
    }
    let kinds = client.list_api_group_resources(needed.group_version);
    let kinds = in_time(CALL_TIMEOUT, kinds).await?.resources;
    Ok(kinds.iter().any(|kind| kind.name == needed.resource))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::client::tests::{Silent, config};

    const NEEDED: Needed =
        Needed { group_version: "a/v1", resource: "b", crd: "b.a", comes_from: "install it" };

    #[tokio::test]
    async fn an_api_server_that_says_nothing_is_not_waited_for() {
        let silent = Silent::accepting().await;
        let client = crate::process::client::plain(config(&silent)).unwrap();
        let missing = MissingCrds::new(&[NEEDED]);
        let discovering = tokio::spawn(missing.clone().discover_all(client));
        let known = tokio::time::timeout(4 * CALL_TIMEOUT, missing.known()).await;
        discovering.abort();
        assert!(known.is_ok() && missing.lacks(NEEDED));
    }
}
