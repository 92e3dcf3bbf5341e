//! The Route by which OpenShift leads to the S3 server of claimed buckets, looked for unless Edge was told where that is.
//!
//! Routes are a kind of OpenShift's, and whether Edge may read this one is for an administrator to say. Where there is none to be
//! had it is looked for less and less often; and one that was there is not gone because of one bad answer.

use std::time::Duration;

use flashjob_plan::edge::storage::{ROUTE, ROUTE_NAMESPACE, Route};
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Error};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::crds::ROUTES;
use super::input::Input;
use crate::engine::backoff;
use crate::process::client::{error_message, in_time};
use crate::process::crds::discover;

/// How long a read may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// From one look at what can be read to the next.
const AT_REST: Duration = Duration::from_secs(60);
/// From a first look in vain to the next; then twice as long each time.
const IN_VAIN: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);
/// After so many looks in vain one that was there is gone.
const ABSENT_FOR_GOOD: u32 = 3;

/// Looks for it as long as anybody listens.
pub async fn follow(client: Client, inputs: mpsc::Sender<Input>) {
    let mut looks = Looks::default();
    while !inputs.is_closed() {
        let (news, pause) = looks.take(look(&client).await);
        if let Some(route) = news {
            let _ = inputs.send(Input::Route(route)).await;
        }
        sleep(pause).await;
    }
}

/// What a look has come to.
enum Look {
    Read(Route),
    /// The cluster has no such kind.
    NoKind,
    /// In the cluster's words.
    Forbidden(String),
    /// Nobody could say.
    Failed(String),
}

async fn look(client: &Client) -> Look {
    match discover(client, ROUTES).await {
        Ok(true) => {}
        Ok(false) => return Look::NoKind,
        Err(error) => return Look::Failed(error_message(&error)),
    }
    let kind = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let kind = ApiResource::from_gvk_with_plural(&kind, ROUTES.resource);
    let routes: Api<DynamicObject> = Api::namespaced_with(client.clone(), ROUTE_NAMESPACE, &kind);
    match in_time(CALL_TIMEOUT, routes.get_opt(ROUTE)).await {
        Ok(None) => Look::Read(Route::None),
        Ok(Some(found)) => Look::Read(Route::with_host(found.data["spec"]["host"].as_str())),
        Err(Error::Api(status)) if status.is_forbidden() => Look::Forbidden(status.message),
        Err(error) => Look::Failed(error_message(&error)),
    }
}

/// What was said of it so far.
#[derive(Default)]
struct Looks {
    said: Option<Route>,
    in_vain: u32,
    failures: u32,
    /// The last answer was that Edge may not read it.
    forbidden: bool,
}

impl Looks {
    /// What is to be said, if that is new, and when to look again.
    fn take(&mut self, look: Look) -> (Option<Route>, Duration) {
        self.forbidden = match look {
            Look::Failed(error) => {
                let pause = backoff::pause(self.failures);
                self.failures = self.failures.saturating_add(1);
                tracing::warn!(
                    error,
                    "whether the Route {ROUTE_NAMESPACE}/{ROUTE} is there could not be found out"
                );
                return (None, pause);
            }
            Look::Read(route) => {
                *self = Self { said: self.said.take(), ..Self::default() };
                return (self.say(route), AT_REST);
            }
            Look::Forbidden(words) => {
                if !self.forbidden {
                    tracing::info!(
                        "the Route {ROUTE_NAMESPACE}/{ROUTE} may not be read and is left out: {words}"
                    );
                }
                true
            }
            Look::NoKind => false,
        };
        let pause = IN_VAIN.saturating_mul(1 << self.in_vain.min(10)).min(LONGEST);
        (self.failures, self.in_vain) = (0, self.in_vain.saturating_add(1));
        let was_there = !matches!(self.said, None | Some(Route::None));
        if was_there && self.in_vain < ABSENT_FOR_GOOD {
            return (None, pause);
        }
        (self.say(Route::None), pause)
    }

    fn say(&mut self, route: Route) -> Option<Route> {
        let is_new = self.said.as_ref() != Some(&route);
        self.said = Some(route.clone());
        is_new.then_some(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there() -> Route {
        Route::with_host(Some("s3.apps.example.com"))
    }

    fn seconds(pause: Duration) -> u64 {
        pause.as_secs()
    }

    #[test]
    fn where_there_is_none_it_is_looked_for_ever_less_often() {
        for look in [|| Look::NoKind, || Look::Forbidden("no".into())] {
            let mut looks = Looks::default();
            let (first, pause) = looks.take(look());
            assert_eq!((first, seconds(pause)), (Some(Route::None), 5));
            let pauses: Vec<_> = (0..8).map(|_| looks.take(look())).collect();
            assert!(pauses.iter().all(|(news, _)| news.is_none()), "it was said once");
            let pauses: Vec<_> = pauses.into_iter().map(|(_, pause)| seconds(pause)).collect();
            assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300, 300]);
            // And then it comes.
            assert_eq!(looks.take(Look::Read(there())), (Some(there()), AT_REST));
            assert_eq!(looks.take(Look::Read(there())), (None, AT_REST));
        }
    }

    #[test]
    fn one_that_was_there_is_gone_when_nothing_else_is_said_for_a_while() {
        let mut looks = Looks::default();
        looks.take(Look::Read(there()));
        assert_eq!(looks.take(Look::NoKind).0, None);
        assert_eq!(looks.take(Look::Forbidden("no".into())).0, None);
        assert_eq!(looks.take(Look::Failed("no answer".into())).0, None);
        assert_eq!(looks.take(Look::NoKind).0, Some(Route::None));
        // Somebody has deleted it: that is certain.
        looks.take(Look::Read(there()));
        assert_eq!(looks.take(Look::Read(Route::None)).0, Some(Route::None));
    }

    #[test]
    fn a_failure_says_nothing_and_is_soon_looked_past() {
        let mut looks = Looks::default();
        let failed = || Look::Failed("no answer".into());
        let pauses: Vec<_> = (0..4).map(|_| looks.take(failed())).collect();
        assert!(pauses.iter().all(|(news, _)| news.is_none()));
        let pauses: Vec<_> = pauses.into_iter().map(|(_, pause)| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000]);
        looks.take(Look::Read(there()));
        assert_eq!(looks.take(failed()).1.as_millis(), 500, "counted anew");
    }
}
