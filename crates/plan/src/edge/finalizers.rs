//! The finalizer of an EdgeDevice: it holds the object back until its tombstone is written.

/// Ours.
pub const FINALIZER: &str = "management.project-flotta.io/edgedevice-finalizer";

/// Those of Flotta. It waited with them for devices that may never come back, and nobody takes them off any more.
const FLOTTA: [&str; 3] =
    ["yggdrasil-connection-finalizer", "yggdrasil-workload-finalizer", "device-finalizer"];

/// The finalizers of an EdgeDevice that is looked after; `None` if it has them already.
pub fn held(finalizers: &[String]) -> Option<Vec<String>> {
    let mut wanted = without(finalizers, &FLOTTA);
    if !wanted.iter().any(|finalizer| finalizer == FINALIZER) {
        wanted.push(FINALIZER.to_owned());
    }
    (wanted != finalizers).then_some(wanted)
}

/// The finalizers of an EdgeDevice whose tombstone is written; `None` if none of them is ours or Flotta's. Those of others stay.
pub fn released(finalizers: &[String]) -> Option<Vec<String>> {
    let wanted = without(&without(finalizers, &FLOTTA), &[FINALIZER]);
    (wanted != finalizers).then_some(wanted)
}

/// What has to be known of an EdgeDevice's finalizers: all of them where some of ours or Flotta's are to be changed, because they
/// are written whole. Else one of others is enough to tell that there are any: there may be very many.
pub fn known(finalizers: Vec<String>, being_deleted: bool) -> Vec<String> {
    let change = if being_deleted { released(&finalizers) } else { held(&finalizers) };
    if change.is_some() {
        return finalizers;
    }
    let (mut ours, mut others): (Vec<_>, Vec<_>) =
        finalizers.into_iter().partition(|finalizer| finalizer == FINALIZER);
    others.truncate(1);
    ours.truncate(1);
    ours.extend(others);
    ours
}

fn without(finalizers: &[String], unwanted: &[&str]) -> Vec<String> {
    finalizers.iter().filter(|f| !unwanted.contains(&f.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(finalizers: &[&str]) -> Vec<String> {
        finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect()
    }

    #[test]
    fn flottas_go_ours_comes_and_those_of_others_stay() {
        let theirs = list(&["device-finalizer", "other", "yggdrasil-workload-finalizer"]);
        let held_now = held(&theirs).unwrap();
        assert_eq!(held_now, list(&["other", FINALIZER]));
        assert_eq!(held(&held_now), None);
        assert_eq!(released(&held_now), Some(list(&["other"])));
        assert_eq!(released(&theirs), Some(list(&["other"])));
        assert_eq!(released(&list(&["other"])), None);
        assert_eq!(released(&[]), None);
    }

    #[test]
    fn those_of_others_are_kept_while_they_are_to_be_written() {
        let many = list(&["a", "b", "c", FINALIZER]);
        assert_eq!(known(many.clone(), false), list(&[FINALIZER, "a"]));
        assert_eq!(known(many.clone(), true), many);
        assert_eq!(known(list(&["a", "b"]), true), list(&["a"]), "it is held back, and not by us");
        assert_eq!(known(list(&["a", "b"]), false), list(&["a", "b"]));
        assert_eq!(known(Vec::new(), true), Vec::<String>::new());
    }
}
