//! Reads what a reference names, and writes down what could not be had, in sentences that say who wants it and never what
//! is in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use flashjob_api::edge::EdgeReason;
use flashjob_api::edge::wire::AllowList;

use super::material::{ConfigMapData, Found, Lack, Material, SecretData, Stand};
use super::references::{Kind, Reference};
use crate::edge::device_id::is_subdomain;
use crate::edge::problem::Problem;

/// A value that is taken out of its object: a list of metrics, a bundle of CAs, a login. Those are far below.
const LONGEST_VALUE: usize = 256 << 10;

/// A spec may name thousands of objects that are not there. Who mends these is told the next.
const MOST_PROBLEMS: usize = 16;

pub(super) struct Reader<'a> {
    namespace: &'a str,
    material: &'a dyn Material,
    problems: BTreeSet<Problem>,
    unread: bool,
}

impl<'a> Reader<'a> {
    pub fn new(namespace: &'a str, material: &'a dyn Material) -> Self {
        Self { namespace, material, problems: BTreeSet::new(), unread: false }
    }

    /// What could not be had, and whether something was not read yet.
    pub fn into_parts(self) -> (Vec<Problem>, bool) {
        (self.problems.into_iter().collect(), self.unread)
    }

    pub fn finish(self) -> Result<(), Lack> {
        match self.into_parts() {
            (problems, true) => Err(Lack::Unread(problems)),
            (problems, false) if problems.is_empty() => Ok(()),
            (problems, false) => Err(Lack::Problems(problems)),
        }
    }

    pub fn problem(&mut self, reason: EdgeReason, message: impl Into<String>) {
        self.problems.insert(Problem::new(reason, message));
        if self.problems.len() > MOST_PROBLEMS {
            self.problems.pop_last();
        }
    }

    /// The Secret, with the key that is named, if one is. One that is optional may be without it.
    pub fn secret(&mut self, wanted: &Reference<'_>) -> Option<Arc<SecretData>> {
        let material = self.material;
        let found = self.look(wanted, |namespace, name| material.secret(namespace, name))?;
        self.check_key(wanted, |key| found.get(key).is_some());
        Some(found)
    }

    pub fn config_map(&mut self, wanted: &Reference<'_>) -> Option<Arc<ConfigMapData>> {
        let material = self.material;
        let found = self.look(wanted, |namespace, name| material.config_map(namespace, name))?;
        self.check_key(wanted, |key| found.has(key));
        Some(found)
    }

    /// What a Secret has under the key that is named.
    pub fn bytes(&mut self, wanted: &Reference<'_>) -> Option<Vec<u8>> {
        let found = self.secret(wanted)?;
        let value = found.get(wanted.key?)?;
        if value.is_empty() || value.len() > LONGEST_VALUE {
            self.unusable(wanted, "is empty or too long");
            return None;
        }
        Some(value.clone())
    }

    /// The same, as text.
    pub fn secret_text(&mut self, wanted: &Reference<'_>) -> Option<String> {
        let text = String::from_utf8(self.bytes(wanted)?);
        text.map_err(|_| self.unusable(wanted, "is no text")).ok()
    }

    /// What a ConfigMap has under the key that is named.
    pub fn text(&mut self, wanted: &Reference<'_>) -> Option<String> {
        let found = self.config_map(wanted)?;
        match found.get(wanted.key?) {
            Some(text) if !text.is_empty() && text.len() <= LONGEST_VALUE => Some(text.clone()),
            None if wanted.optional || !found.has(wanted.key?) => None,
            Some(_) | None => {
                self.unusable(wanted, "is empty, too long, or no text");
                None
            }
        }
    }

    /// The metrics that are kept, as a ConfigMap lists them.
    pub fn allow_list(&mut self, name: &str, path: &str) -> Option<AllowList> {
        let wanted = Reference::new(Kind::ConfigMap, name, Some("metrics_list.yaml"), path);
        let text = self.text(&wanted)?;
        match serde_saphyr::from_str::<Option<AllowList>>(&text) {
            Ok(list) => Some(list.unwrap_or_default()),
            Err(_) => {
                self.unusable(&wanted, "is not YAML of the form `names: [a, b]`");
                None
            }
        }
    }

    /// The object has the key, but nothing can be done with what is there. Of what may not be read nobody can say that.
    pub fn unusable(&mut self, wanted: &Reference<'_>, why: &str) {
        if self.is_unreadable(wanted) {
            return;
        }
        let Reference { kind, path, .. } = wanted;
        let (key, name) = (shown(wanted.key.unwrap_or_default()), shown(wanted.name));
        let what = format!("{key} of the {kind} {}/{name} {why}", self.namespace);
        self.problem(kind.key_missing(), format!("{what}; {path} needs it"));
    }

    /// Whether something stands in for what is named.
    pub fn is_unreadable(&self, wanted: &Reference<'_>) -> bool {
        fn is<T>(found: &Found<T>) -> bool {
            matches!(found, Found::Unreadable)
        }
        match wanted.kind {
            Kind::Secret => is(&self.material.secret(self.namespace, wanted.name)),
            Kind::ConfigMap => is(&self.material.config_map(self.namespace, wanted.name)),
        }
    }

    fn look<T: Stand>(
        &mut self,
        wanted: &Reference<'_>,
        ask: impl FnOnce(&str, &str) -> Found<T>,
    ) -> Option<Arc<T>> {
        // No object has another name, so nobody needs to be asked.
        let valid = is_subdomain(wanted.name);
        let found = if valid { ask(self.namespace, wanted.name) } else { Found::Missing };
        match found.or_stand_in() {
            Found::There(found) => return Some(found),
            Found::Missing if wanted.optional => {}
            Found::Missing => {
                let Reference { kind, path, .. } = wanted;
                let what = format!("there is no {kind} {}/{}", self.namespace, shown(wanted.name));
                self.problem(kind.missing(), format!("{what}; {path} needs it"));
            }
            Found::Unknown | Found::Unreadable => self.unread = true,
            Found::Failed(why) => {
                let Reference { kind, path, .. } = wanted;
                let what = format!("the {kind} {}/{}", self.namespace, shown(wanted.name));
                let message = format!("{what} could not be read: {why}; {path} needs it");
                self.problem(EdgeReason::ReadFailed, message);
                self.unread = true;
            }
        }
        None
    }

    fn check_key(&mut self, wanted: &Reference<'_>, has: impl FnOnce(&str) -> bool) {
        let Some(key) = wanted.key.filter(|_| !wanted.optional) else { return };
        if !has(key) {
            let Reference { kind, path, .. } = wanted;
            let (name, key) = (shown(wanted.name), shown(key));
            let what = format!("the {kind} {}/{name} has no key {key}", self.namespace);
            self.problem(kind.key_missing(), format!("{what}; {path} needs it"));
        }
    }
}

/// A name as people may read it: a spec can have any text there.
pub(super) fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.len() <= 253 && !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("{:?}", name.chars().take(63).collect::<String>())
}
