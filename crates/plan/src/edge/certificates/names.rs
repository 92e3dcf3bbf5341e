//! The names by which devices reach the server.

use std::net::IpAddr;

const LOCALHOST: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What the server's certificate has to say, each name once and in the form in which a certificate has it; and a sentence
/// for each that cannot be a name.
pub fn server_names(domain: &str, more: &[String], localhost: bool) -> (Vec<String>, Vec<String>) {
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    let given = std::iter::once(domain).chain(more.iter().map(String::as_str));
    let local = LOCALHOST.into_iter().filter(|_| localhost);
    for text in given.chain(local).map(str::trim).filter(|text| !text.is_empty()) {
        match name(text) {
            Some(name) if names.contains(&name) => {}
            Some(name) => names.push(name),
            None => problems.push(format!(
                "{text:?} is neither a DNS name nor an IP address, so the server's certificate does not have it; see DOMAIN \
                 and --edge-server-names"
            )),
        }
    }
    (names, problems)
}

fn name(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let lower = text.trim_end_matches('.').to_ascii_lowercase();
    let host = lower.strip_prefix("*.").unwrap_or(&lower);
    let good = |label: &str| {
        let letters = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        letters && (1..=63).contains(&label.len())
    };
    (lower.len() <= 253 && host.split('.').all(good)).then_some(lower)
}
