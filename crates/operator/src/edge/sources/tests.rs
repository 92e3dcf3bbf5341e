use std::collections::BTreeMap;

use super::*;

const KIND: SourceKind = SourceKind::Secret;

/// The Secrets of a namespace as the API server has them, one of which is `db`, and those who name it.
#[derive(Default)]
struct Play {
    sources: Sources,
    /// Reads that were asked for and not answered yet.
    asked: usize,
}

fn owner(name: &str) -> Owner {
    Owner::Workload("a".into(), name.into())
}

fn db() -> Source {
    Source { kind: KIND, namespace: "a".into(), name: "db".into() }
}

fn needs(secret: bool) -> Needs {
    let secrets = if secret { BTreeSet::from(["db".to_owned()]) } else { BTreeSet::new() };
    Needs { secrets, ..Needs::default() }
}

impl Play {
    /// It is all listed, and there is a `db` if it has a version.
    fn listed(version: Option<&str>) -> Self {
        let mut play = Self::default();
        play.list(version);
        play
    }

    fn list(&mut self, version: Option<&str>) -> Vec<String> {
        let mut concerned = self.watch(WatchEvent::Listing);
        for event in version.map(there).into_iter().chain([WatchEvent::Synced]) {
            concerned.extend(self.watch(event));
        }
        concerned
    }

    fn want(&mut self, by: &str) {
        self.asked += self.sources.want(&owner(by), "a", &needs(true)).len();
    }

    fn forget(&mut self, by: &str) {
        self.asked += self.sources.want(&owner(by), "a", &needs(false)).len();
    }

    fn watch(&mut self, event: WatchEvent<(String, String)>) -> Vec<String> {
        let consequences = self.sources.take(KIND, "a", event);
        self.follow(consequences)
    }

    /// The read that is under way has found this.
    fn read(&mut self, version: Option<&str>) -> Vec<String> {
        let found = version.map(|version| {
            let data = BTreeMap::from([("key".to_owned(), version.as_bytes().to_vec())]);
            (version.to_owned(), Content::Secret(Arc::new(SecretData { data })))
        });
        self.answer(Ok(found)).0
    }

    /// It could not be read. Says who is concerned, and when to try again.
    fn fail(&mut self) -> (Vec<String>, Option<Instant>) {
        self.answer(Err("no route to host".to_owned()))
    }

    fn answer(
        &mut self,
        result: Result<Option<(String, Content)>, String>,
    ) -> (Vec<String>, Option<Instant>) {
        self.asked -= 1;
        let consequences = self.sources.was_read(&SourceRead { source: db(), result });
        let again = consequences.again;
        (self.follow(consequences), again)
    }

    fn follow(&mut self, consequences: Consequences) -> Vec<String> {
        self.asked += consequences.read.len();
        let name = |owner| match owner {
            Owner::Workload(_, name) | Owner::Device(_, name) => name,
        };
        consequences.concerned.into_iter().map(name).collect()
    }

    /// What who asks is told: a version, that there is none, or that nobody knows.
    fn known(&self) -> String {
        match self.sources.secret("a", "db") {
            Found::There(data) => String::from_utf8(data.data["key"].clone()).unwrap(),
            Found::Missing => "missing".to_owned(),
            Found::Failed(why) => why.to_string(),
            Found::Unknown | Found::Unreadable => "unknown".to_owned(),
        }
    }
}

fn there(version: &str) -> WatchEvent<(String, String)> {
    WatchEvent::There(("db".to_owned(), version.to_owned()))
}

fn left(version: &str) -> WatchEvent<(String, String)> {
    WatchEvent::Left(("db".to_owned(), version.to_owned()))
}

#[test]
fn what_is_named_is_read_once_however_many_name_it() {
    let mut play = Play::listed(Some("1"));
    for device in 0..10_000 {
        play.want(&format!("device-{device}"));
    }
    assert_eq!((play.asked, play.known().as_str()), (1, "unknown"));
    assert_eq!(play.read(Some("1")).len(), 10_000);
    for device in 0..10_000 {
        play.want(&format!("device-{device}"));
    }
    assert_eq!((play.asked, play.known().as_str()), (0, "1"));
    assert_eq!(play.watch(there("2")).len(), 0, "first it has to be read");
    assert_eq!(play.watch(there("3")).len(), 0);
    assert_eq!(play.asked, 1);
}

#[test]
fn before_the_list_is_complete_nobody_knows_what_there_is() {
    let mut play = Play::default();
    play.watch(WatchEvent::Listing);
    play.want("web");
    play.watch(there("1"));
    assert_eq!((play.asked, play.known().as_str()), (0, "unknown"));
    play.watch(WatchEvent::Synced);
    assert_eq!((play.asked, play.known().as_str()), (1, "unknown"));
    assert_eq!(play.read(Some("1")), ["web"]);
    assert_eq!(play.known(), "1");
}

#[test]
fn what_was_never_there_is_looked_for_and_then_missing() {
    let mut play = Play::listed(None);
    play.want("web");
    assert_eq!((play.asked, play.known().as_str()), (1, "unknown"));
    assert_eq!(play.read(None), ["web"]);
    assert_eq!(play.known(), "missing");
    play.want("web");
    play.list(None);
    assert_eq!(play.asked, 0, "that it is still not there is no news");
    play.watch(there("1"));
    assert_eq!((play.asked, play.known().as_str()), (1, "missing"));
    assert_eq!(play.read(Some("1")), ["web"]);
}

#[test]
fn a_read_that_is_ahead_of_the_watch_is_not_repeated_when_that_comes_by() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.read(Some("2"));
    play.want("web");
    assert_eq!(play.watch(there("2")).len(), 0);
    assert_eq!((play.asked, play.known().as_str()), (0, "2"));
    // A watch that is two behind costs a read, and ends where it was.
    play.watch(there("3"));
    assert_eq!(play.read(Some("5")), ["web"]);
    play.watch(there("4"));
    assert_eq!(play.asked, 1);
    assert_eq!(play.read(Some("5")).len(), 0, "nothing is different");
    play.watch(there("5"));
    assert_eq!((play.asked, play.known().as_str()), (0, "5"));
}

#[test]
fn what_a_watch_says_during_a_read_is_read_after_it() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.watch(there("2"));
    play.watch(there("3"));
    assert_eq!(play.asked, 1);
    assert_eq!(play.read(Some("2")), ["web"]);
    assert_eq!(play.asked, 1, "the watch has said 3");
    assert_eq!(play.read(Some("3")), ["web"]);
    assert_eq!((play.asked, play.known().as_str()), (0, "3"));
}

#[test]
fn deleted_during_a_read_and_made_again_it_is_what_it_is_in_the_end() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.watch(left("1"));
    play.watch(there("4"));
    assert_eq!(play.read(None), ["web"]);
    assert_eq!((play.asked, play.known().as_str()), (1, "missing"));
    assert_eq!(play.read(Some("4")), ["web"]);
    assert_eq!((play.asked, play.known().as_str()), (0, "4"));
    play.watch(left("4"));
    assert_eq!((play.asked, play.known().as_str()), (1, "4"), "until that was looked at");
    assert_eq!(play.read(None), ["web"]);
    assert_eq!(play.known(), "missing");
}

#[test]
fn what_a_list_has_no_more_is_looked_for() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.read(Some("1"));
    play.list(None);
    assert_eq!((play.asked, play.known().as_str()), (1, "1"), "until that was looked at");
    assert_eq!(play.read(None), ["web"]);
    assert_eq!(play.known(), "missing");
}

#[test]
fn what_was_made_while_a_list_went_on_is_still_there_after_it() {
    let mut play = Play::listed(None);
    play.want("web");
    play.watch(WatchEvent::Listing);
    assert_eq!(play.read(Some("9")), ["web"]);
    play.watch(WatchEvent::Synced);
    assert_eq!((play.asked, play.known().as_str()), (1, "9"));
    assert_eq!(play.read(Some("9")).len(), 0);
    assert_eq!((play.asked, play.known().as_str()), (0, "9"));
}

#[test]
fn what_nobody_names_any_more_is_forgotten_and_concerns_nobody() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.want("api");
    play.read(Some("1"));
    play.forget("web");
    assert_eq!(play.known(), "1");
    play.watch(there("2"));
    assert_eq!(play.read(Some("2")), ["api"]);
    play.forget("api");
    assert_eq!(play.known(), "unknown");
    play.watch(there("3"));
    assert_eq!((play.asked, play.sources.wanted.len(), play.sources.owners.len()), (0, 0, 0));
}

#[test]
fn two_answers_never_overtake_each_other() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    play.forget("web");
    play.watch(there("2"));
    play.want("web");
    assert_eq!(play.asked, 1, "the first read is still under way");
    play.read(Some("1"));
    assert_eq!(play.asked, 1, "and may have been too early");
    assert_eq!(play.read(Some("2")), ["web"]);
    assert_eq!((play.asked, play.known().as_str()), (0, "2"));
    // Forgotten for good while it is read.
    play.watch(there("3"));
    play.forget("web");
    assert_eq!(play.read(Some("3")).len(), 0);
    assert_eq!((play.asked, play.sources.wanted.len()), (0, 0));
}

#[tokio::test]
async fn a_read_that_fails_is_tried_again_after_a_pause_whoever_asks_meanwhile() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    let again = play.fail().1.unwrap();
    play.want("web");
    play.want("api");
    play.watch(there("2"));
    play.asked += usize::from(play.sources.again(&db()).is_some());
    assert_eq!((play.asked, play.known().as_str()), (0, "unknown"));
    tokio::time::sleep_until(again).await;
    play.asked += usize::from(play.sources.again(&db()).is_some());
    assert_eq!(play.asked, 1);
    assert_eq!(play.read(Some("2")), ["api", "web"]);
    play.watch(there("3"));
    assert_eq!(play.fail().0.len(), 0);
    assert_eq!(play.known(), "2", "it keeps what it has while it cannot be read");
}

#[test]
fn reads_that_go_on_failing_are_told_once_and_no_more_when_one_goes_well() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    let mut told = Vec::new();
    for _ in 0..6 {
        play.asked = 1;
        told.push((play.fail().0.len(), play.known()));
    }
    let unknown = (0, "unknown".to_owned());
    let failed = |concerned| (concerned, "no route to host".to_owned());
    let expected = [vec![unknown; 3], vec![failed(1), failed(0), failed(0)]].concat();
    assert_eq!(told, expected);
    play.asked = 1;
    assert_eq!(play.read(Some("1")), ["web"]);
    assert_eq!(play.known(), "1");
}

#[test]
fn the_pause_after_a_read_that_fails_grows() {
    let mut play = Play::listed(Some("1"));
    play.want("web");
    let (mut pauses, began) = (Vec::new(), Instant::now());
    for _ in 0..8 {
        play.asked = 1;
        pauses.push((play.fail().1.unwrap() - began).as_secs());
    }
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30]);
}

#[test]
fn one_of_another_namespace_or_kind_is_another() {
    let mut play = Play::listed(None);
    play.want("web");
    play.read(None);
    for (kind, namespace) in [(KIND, "b"), (SourceKind::ConfigMap, "a")] {
        for event in [WatchEvent::Listing, there("7"), WatchEvent::Synced] {
            let consequences = play.sources.take(kind, namespace, event);
            play.follow(consequences);
        }
    }
    assert_eq!((play.asked, play.known().as_str()), (0, "missing"));
    play.list(None);
    assert_eq!(play.sources.versions.len(), 2, "nor does a list of one forget the others");
}
