//! Reads past every cache: in pages, and for as long as it takes where an answer is needed.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

use super::pool::Caller;
use crate::process::client::error_message;

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reads an object past every cache, for as long as it takes.
pub async fn live<K>(caller: &Caller, api: &Api<K>, name: &str) -> Option<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut pause = Duration::from_millis(200);
    loop {
        match caller.call(api.get_opt(name)).await {
            Ok(found) => return found,
            Err(error) => {
                tracing::warn!(
                    name,
                    error = error_message(&error),
                    "a live read failed and is tried again"
                )
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Lists everything that fits the selector, a page at a time, and keeps of each object what `keep` makes of it.
pub async fn list<K, T>(
    caller: &Caller,
    api: &Api<K>,
    selector: &str,
    page: u32,
    keep: impl Fn(K) -> Option<T>,
) -> kube::Result<Vec<T>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().labels(selector).limit(page);
    let mut kept = Vec::new();
    loop {
        let list = caller.call(api.list(&params)).await?;
        kept.extend(list.items.into_iter().filter_map(&keep));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(kept),
        }
    }
}
