//! User and password for a registry, out of a Docker config file: the content of a `dockerconfigjson` Secret.
//!
//! Keys are matched as the kubelet matches them, so that a Secret that pulls the Pod's image also pulls its firmware:
//! with or without a scheme, `*` for one label of the host, and with a path the longest one that fits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::reference::Reference;

/// What a registry asks for. Debug leaves out the password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// Reads the login for an image. No file and no entry that fits both mean: none.
pub(super) fn read(file: &Path, image: &Reference) -> Result<Option<Login>, String> {
    let shown = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read the registry credentials {shown}: {error}")),
    };
    find(&text, image).map_err(|why| format!("the registry credentials {shown}: {why}"))
}

fn find(text: &str, image: &Reference) -> Result<Option<Login>, String> {
    // serde's own words would quote the file's content.
    let config: Config = serde_json::from_str(text).map_err(|error| {
        format!("not a Docker config file (line {}, column {})", error.line(), error.column())
    })?;
    let best = config
        .auths
        .iter()
        .filter_map(|(key, entry)| Some((fit(key, image)?, key, entry)))
        .max_by_key(|(fit, ..)| *fit);
    if let Some((_, key, entry)) = best {
        return login(entry).map_err(|why| format!("the entry {key}: {why}"));
    }
    let helper = config.cred_helpers.get(&image.registry).or(config.creds_store.as_ref());
    match helper {
        Some(helper) => Err(format!(
            "they are kept by the credential helper {helper:?}, which is a program on another machine; \
             put user and password for {} under auths",
            image.registry
        )),
        None => Ok(None),
    }
}

/// How well a key fits the image: the length of its path, and an exact host before one with `*`.
fn fit(key: &str, image: &Reference) -> Option<(usize, bool)> {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let path = match path.trim_matches('/') {
        // What Docker itself writes: the address of an API, not of repositories.
        "v1" | "v2" => "",
        path => path,
    };
    let exact = alias(host) == alias(&image.registry);
    if !exact && !labels_fit(host, &image.registry) {
        return None;
    }
    let inside = path.is_empty()
        || image
            .repository
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    inside.then_some((path.len(), exact))
}

fn alias(host: &str) -> &str {
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" | "registry.hub.docker.com" => {
            "docker.io"
        }
        host => host,
    }
}

fn labels_fit(pattern: &str, host: &str) -> bool {
    if !pattern.contains('*') {
        return false;
    }
    let (pattern, host): (Vec<_>, Vec<_>) =
        (pattern.split('.').collect(), host.split('.').collect());
    pattern.len() == host.len() && pattern.iter().zip(&host).all(|(p, h)| *p == "*" || p == h)
}

fn login(entry: &Entry) -> Result<Option<Login>, String> {
    let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    for (name, value) in
        [("identitytoken", &entry.identitytoken), ("registrytoken", &entry.registrytoken)]
    {
        if set(value).is_some() {
            return Err(format!(
                "it has an {name}, which is not supported; give a user and a password or access token"
            ));
        }
    }
    if let Some(user) = set(&entry.username) {
        let password = entry.password.clone().unwrap_or_default();
        return Ok(Some(Login { user, password }));
    }
    let Some(auth) = set(&entry.auth) else { return Ok(None) };
    let plain = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let plain = plain.ok_or("its auth is not base64 of user:password")?;
    let (user, password) =
        plain.split_once(':').ok_or("its auth is not base64 of user:password")?;
    // Docker pads old entries with NUL.
    let password = password.trim_end_matches('\0');
    Ok(Some(Login { user: user.to_owned(), password: password.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(config: &str, image: &str) -> Option<String> {
        let image = Reference::parse(image).unwrap();
        find(config, &image).unwrap().map(|login| format!("{}/{}", login.user, login.password))
    }

    #[test]
    fn the_entry_of_the_registry_is_found_however_its_key_is_written() {
        for key in ["r.io:5000", "https://r.io:5000", "http://r.io:5000/v2/", "r.io:5000/team"] {
            let config = format!(r#"{{"auths":{{"{key}":{{"username":"u","password":"p"}}}}}}"#);
            assert_eq!(user(&config, "r.io:5000/team/fw").as_deref(), Some("u/p"), "{key}");
            assert_eq!(user(&config, "r.io/team/fw"), None, "{key}");
        }
        let hub = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"dTpwOnE="}}}"#;
        assert_eq!(user(hub, "me/fw").as_deref(), Some("u/p:q"));
        let glob = r#"{"auths":{"*.r.io":{"username":"u","password":"p"}}}"#;
        assert_eq!(user(glob, "eu.r.io/fw").as_deref(), Some("u/p"));
        assert_eq!(user(glob, "r.io/fw"), None);
    }

    #[test]
    fn the_longest_path_wins_and_half_a_name_does_not_fit() {
        let config = r#"{"auths":{
            "r.io":{"username":"all"}, "r.io/team":{"username":"team"}, "r.io/te":{"username":"te"}}}"#;
        assert_eq!(user(config, "r.io/team/fw").as_deref(), Some("team/"));
        assert_eq!(user(config, "r.io/teams/fw").as_deref(), Some("all/"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name_and_no_secret_is_said() {
        let image = Reference::parse("r.io/fw").unwrap();
        for (config, word) in [
            (r#"{"auths":{"r.io":{"identitytoken":"hunter2"}}}"#, "identitytoken"),
            (r#"{"auths":{"r.io":{"registrytoken":"hunter2"}}}"#, "registrytoken"),
            (r#"{"auths":{"r.io":{"auth":"hunter2"}}}"#, "base64"),
            (r#"{"auths":{"r.io":"hunter2"}}"#, "line 1"),
            (r#"{"credsStore":"pass"}"#, "\"pass\""),
            (r#"{"credHelpers":{"r.io":"ecr-login"}}"#, "ecr-login"),
        ] {
            let error = find(config, &image).unwrap_err();
            assert!(error.contains(word) && !error.contains("hunter2"), "{error}");
        }
        let login = Login { user: "u".into(), password: "hunter2".into() };
        assert!(!format!("{login:?}").contains("hunter2"));
    }
}
