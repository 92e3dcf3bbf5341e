//! The workloads of one device as they are sent, and those among them that cannot be.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fragment::Fragment;
use super::material::Lack;
use crate::edge::workloads::{Accepted, Workloads, referred};

/// Workloads by name, each as it is sent or why it cannot be.
pub type Rendered = BTreeMap<String, Result<Arc<Fragment>, Lack>>;

/// A device, as far as it matters which workloads are for it.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
}

/// What a device is to run. A workload that is refused is there too, if the device has it by now: left out it would be a pod that
/// is removed. That it has one, its label says, or whoever served it (`served`): somebody may have taken the label off.
pub fn workloads_of<'a>(
    index: &Workloads,
    device: Placed<'a>,
    served: impl IntoIterator<Item = &'a str>,
    fragment: impl Fn(&Accepted) -> Result<Arc<Fragment>, Lack>,
) -> Rendered {
    let Placed { namespace, name, labels } = device;
    let wanted = index.for_device(namespace, name, labels);
    let mut rendered: Rendered =
        wanted.into_iter().map(|workload| (workload.name.clone(), fragment(&workload))).collect();
    for name in referred(labels).chain(served) {
        if let Some(problem) = index.refused(namespace, name) {
            let lack = || Err(Lack::Problems(vec![problem.clone()]));
            rendered.entry(name.to_owned()).or_insert_with(lack);
        }
    }
    rendered
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::material::tests::Namespace;
    use super::super::{WorkloadInput, fragment};
    use super::*;
    use crate::edge::read::workload;
    use crate::edge::workloads::WorkloadKind;

    /// `web` for every device, and `probe`, which is refused.
    fn index() -> Workloads {
        let mut index = Workloads::default();
        let of = |name: &str, container: Value| {
            let spec =
                json!({ "deviceSelector": {}, "pod": { "spec": { "containers": [container] } } });
            let meta = json!({ "namespace": "default", "name": name });
            workload(WorkloadKind::EdgeWorkload, &serde_json::from_value(meta).unwrap(), &spec)
        };
        drop(index.see(of("web", json!({ "name": "c", "image": "i" }))));
        let probe = json!({ "name": "c", "image": "i", "livenessProbe": {} });
        drop(index.see(of("probe", probe)));
        index
    }

    fn names(labels: &[&str], served: &[&str]) -> Vec<(String, bool)> {
        let labels = labels.iter().map(|label| ((*label).to_owned(), "true".to_owned())).collect();
        let device = Placed { namespace: "default", name: "edge1", labels: &labels };
        let of = |workload: &Accepted| {
            fragment(&WorkloadInput::from(workload), &Namespace::default()).map(Arc::new)
        };
        let rendered = workloads_of(&index(), device, served.iter().copied(), of);
        rendered.into_iter().map(|(name, rendered)| (name, rendered.is_ok())).collect()
    }

    #[test]
    fn who_has_what_is_refused_now_is_not_left_without_a_word_of_it() {
        let web = || ("web".to_owned(), true);
        let probe = || ("probe".to_owned(), false);
        assert_eq!(names(&[], &[]), [web()], "who never had it is not concerned");
        assert_eq!(names(&["workload/probe"], &[]), [probe(), web()]);
        assert_eq!(names(&[], &["probe"]), [probe(), web()]);
        assert_eq!(names(&["workload/gone", "probe"], &["gone"]), [web()], "there is none");
        assert_eq!(names(&["workload/web"], &["web"]), [web()]);
    }
}
