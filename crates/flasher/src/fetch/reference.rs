//! The name of an image: `[host[:port]/]repository[:tag][@digest]`, as Docker reads it.

/// Where Docker Hub's registry answers; `docker.io` itself is a web page.
const HUB: &str = "registry-1.docker.io";

/// A parsed image name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The registry as people write it: `docker.io`, `harbor.example:5000`.
    pub(super) registry: String,
    pub(super) repository: String,
    /// A tag, or the digest when there is one: a digest says more than the tag beside it.
    pub(super) version: String,
}

impl Reference {
    /// Reads an image name. The error says what is wrong with it.
    pub(super) fn parse(image: &str) -> Result<Self, String> {
        let image = image.trim();
        if image.is_empty() {
            return Err("no firmware image is named".into());
        }
        if image.contains("://") {
            return Err(format!("{image} is not an image name: leave out what stands before ://"));
        }
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        // A colon after the last slash starts a tag; one before it belongs to the registry's port.
        let (name, tag) = match name.rfind(':').filter(|&at| !name[at..].contains('/')) {
            Some(at) => (&name[..at], Some(&name[at + 1..])),
            None => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => {
                (host.to_owned(), rest.to_owned())
            }
            Some(_) => ("docker.io".into(), name.to_owned()),
            None => ("docker.io".into(), format!("library/{name}")),
        };
        check_registry(&registry).map_err(|why| format!("{image} is not an image name: {why}"))?;
        check_repository(&repository)
            .map_err(|why| format!("{image} is not an image name: {why}"))?;
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(format!("{image} is not an image name: {tag:?} is not a tag"));
        }
        if let Some(digest) = digest.filter(|digest| !is_digest(digest)) {
            let rule = "only sha256: and 64 lower-case hexadecimal digits are";
            return Err(format!("{image}: {digest:?} is not a digest, {rule}"));
        }
        let version = digest.or(tag).unwrap_or("latest").to_owned();
        Ok(Self { registry, repository, version })
    }

    /// The host and port to connect to.
    pub(super) fn host(&self) -> &str {
        match self.registry.as_str() {
            "docker.io" | "index.docker.io" => HUB,
            host => host,
        }
    }
}

/// Whether this is a digest we can check. Nothing but SHA-256 is in use, and what cannot be checked is refused.
pub(super) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

/// The name becomes part of a URL: nothing in it may lead to another path, query or user.
fn check_registry(registry: &str) -> Result<(), String> {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let fine = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
        }
    };
    if !fine {
        return Err(format!("{registry:?} is not a registry's host"));
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(format!("{registry:?} has no port a host can have"));
    }
    Ok(())
}

fn check_repository(repository: &str) -> Result<(), String> {
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(format!("the repository {repository:?} must be lower case"));
    }
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().next().is_some_and(letter)
            && part.bytes().last().is_some_and(letter)
            && part.bytes().all(|b| letter(b) || matches!(b, b'.' | b'_' | b'-'))
            && !part.contains("..")
    };
    if repository.len() > 255 || !repository.split('/').all(part) {
        return Err(format!("{repository:?} is not a repository"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(image: &str) -> (String, String, String) {
        let reference = Reference::parse(image).unwrap();
        (reference.registry, reference.repository, reference.version)
    }

    fn three(a: &str, b: &str, c: &str) -> (String, String, String) {
        (a.into(), b.into(), c.into())
    }

    #[test]
    fn names_are_read_as_docker_reads_them() {
        assert_eq!(parsed("fw"), three("docker.io", "library/fw", "latest"));
        assert_eq!(parsed("me/fw:1.2"), three("docker.io", "me/fw", "1.2"));
        assert_eq!(parsed("localhost/fw"), three("localhost", "fw", "latest"));
        assert_eq!(
            parsed(" harbor.example:5000/a/b-c__d:x-1_2 "),
            three("harbor.example:5000", "a/b-c__d", "x-1_2")
        );
        assert_eq!(parsed("127.0.0.1:5000/fw"), three("127.0.0.1:5000", "fw", "latest"));
        assert_eq!(parsed("[::1]:5000/fw:1"), three("[::1]:5000", "fw", "1"));
        let digest = format!("sha256:{}", "a1".repeat(32));
        assert_eq!(parsed(&format!("r.io/fw@{digest}")), three("r.io", "fw", &digest));
        assert_eq!(parsed(&format!("r.io:1/fw:tag@{digest}")), three("r.io:1", "fw", &digest));
        assert_eq!(Reference::parse("me/fw").unwrap().host(), HUB);
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_part_that_is_wrong() {
        for (image, part) in [
            ("", "no firmware image"),
            ("https://r.io/fw", "://"),
            ("r.io/Fw", "lower case"),
            ("r.io/fw:", "not a tag"),
            ("r.io/fw:a b", "not a tag"),
            ("r.io/../fw", "not a repository"),
            ("r.io/fw/", "not a repository"),
            ("r.io/a?b", "not a repository"),
            ("user@r.io/fw", "not a digest"),
            ("r.io:99999/fw", "port"),
            ("[::g]:1/fw", "host"),
            ("r.io/fw@sha256:12", "not a digest"),
            ("r.io/fw@sha512:12", "not a digest"),
        ] {
            let error = Reference::parse(image).unwrap_err();
            assert!(error.contains(part), "{image}: {error}");
        }
    }
}
