//! How a PodSpec is walked. It is an open object and anything may be in it, so every value is asked what it is, and what is
//! refused is refused with its path.

use flashjob_api::edge::EdgeReason;
use serde_json::{Map, Value};

use super::super::device_id::is_subdomain;
use super::super::problem::Problem;

/// The longest sentence about a workload; what a user wrote may be in it.
pub(super) const SENTENCE: usize = 1024;

/// A problem of the spec: where, and what it is.
pub(super) fn invalid(path: &str, why: impl AsRef<str>) -> Problem {
    Problem::new(EdgeReason::InvalidSpec, cut(format!("{path}: {}", why.as_ref())))
}

/// The sentence, or so much of it as can be shown.
pub(super) fn cut(sentence: String) -> String {
    match sentence.char_indices().nth(SENTENCE) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence,
    }
}

/// What Kubernetes allows as the name part of a label, and Podman as the name of a container.
pub(super) fn is_label_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    text.len() <= 63
        && text.bytes().all(inner)
        && ends.into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

/// The name of a Secret, a ConfigMap and so on. What it names is read from the cluster, and so it must be a name indeed.
pub(super) fn object_name(path: &str, name: &str) -> Result<(), Problem> {
    if is_subdomain(name) { Ok(()) } else { Err(invalid(path, "is not the name of an object")) }
}

/// A value and where it stands. A field that is null counts as absent.
pub(super) struct At<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    /// The field of an object that stands at this path.
    pub fn field_of(object: &'a Map<String, Value>, path: &str, key: &str) -> Option<Self> {
        let value = object.get(key).filter(|value| !value.is_null())?;
        Some(At { path: format!("{path}.{key}"), value })
    }

    pub fn refuse(&self, why: &str) -> Problem {
        invalid(&self.path, why)
    }

    /// Refuses a field of this one by its name, be it there or not.
    pub fn refuse_field(&self, key: &str, why: &str) -> Problem {
        invalid(&format!("{}.{key}", self.path), why)
    }

    pub fn object(&self) -> Result<&'a Map<String, Value>, Problem> {
        self.value.as_object().ok_or_else(|| self.refuse("has to be an object"))
    }

    pub fn field(&self, key: &str) -> Result<Option<Self>, Problem> {
        Ok(At::field_of(self.object()?, &self.path, key))
    }

    pub fn required(&self, key: &str) -> Result<Self, Problem> {
        self.field(key)?.ok_or_else(|| self.refuse_field(key, "is missing"))
    }

    /// The names of the fields that are there.
    pub fn keys(&self) -> Result<Vec<&'a str>, Problem> {
        let there = self.object()?.iter().filter(|(_, value)| !value.is_null());
        Ok(there.map(|(key, _)| key.as_str()).collect())
    }

    pub fn list(&self) -> Result<Vec<Self>, Problem> {
        let entries = self.value.as_array().ok_or_else(|| self.refuse("has to be a list"))?;
        let at = |(index, value)| At { path: format!("{}[{index}]", self.path), value };
        Ok(entries.iter().enumerate().map(at).collect())
    }

    /// The entries of a list that may be missing.
    pub fn list_in(&self, key: &str) -> Result<Vec<Self>, Problem> {
        self.field(key)?.map_or(Ok(Vec::new()), |field| field.list())
    }

    /// What it says is not repeated: it may be a password.
    pub fn text(&self) -> Result<&'a str, Problem> {
        let text = self.value.as_str();
        text.ok_or_else(|| self.refuse("has to be a text; put it in quotes"))
    }

    /// A text in which something is said.
    pub fn word(&self) -> Result<&'a str, Problem> {
        self.text()
            .and_then(|text| if text.is_empty() { Err(self.refuse("is empty")) } else { Ok(text) })
    }

    pub fn object_name(&self) -> Result<(), Problem> {
        object_name(&self.path, self.word()?)
    }

    pub fn bool(&self) -> Result<bool, Problem> {
        self.value.as_bool().ok_or_else(|| self.refuse("has to be true or false"))
    }

    /// The number of a port, at least `least`.
    pub fn port(&self, least: u16) -> Result<u16, Problem> {
        let number = self.value.as_u64().and_then(|number| u16::try_from(number).ok());
        let why = || self.refuse(&format!("has to be a number from {least} to {}", u16::MAX));
        number.filter(|number| *number >= least).ok_or_else(why)
    }
}
