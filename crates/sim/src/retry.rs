//! A played part keeps trying, as the real ones do.

use std::future::Future;
use std::time::Duration;

use kube::core::Status;
use tokio::time::sleep;
use tracing::warn;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Calls the API until it takes the call. `None`: the object is gone, or its name is another object's by now.
pub(crate) async fn retry<T, F, Fut>(what: &str, call: F) -> Option<T>
where
    F: Fn() -> Fut,
    Fut: Future<Output = kube::Result<T>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match call().await {
            Ok(answer) => return Some(answer),
            Err(kube::Error::Api(status)) if is_gone(&status) => return None,
            Err(error) => warn!(%error, "cannot {what}; trying again"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether the answer says that the object with our uid is not there: no such name, or the name is another's. A uid
/// that does not fit is a conflict in a delete; in a patch it is one on newer servers, and "immutable" on older ones.
/// A patch that lost to other writers is a conflict too, and worth another try.
pub(crate) fn is_gone(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let lost_race = status.message.contains("object has been modified");
    status.is_not_found()
        || status.is_conflict() && !lost_race
        || status.is_invalid() && causes.any(|cause| cause.field == "metadata.uid")
}
