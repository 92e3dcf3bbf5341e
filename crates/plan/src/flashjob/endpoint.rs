//! One form for a board's address. People and Akri write one board as `192.0.2.11`, `192.0.2.11:80` or
//! `http://192.0.2.11/`; locks, duplicates and "who flashed it last" must see one board. What is written into a flash Pod stays
//! as it was given.

use std::borrow::{Borrow, Cow};
use std::fmt::{self, Display};
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A board's address as it was given; empty where none was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Endpoint(String);

/// A board, by the one form of its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoardKey<'a>(Cow<'a, str>);

impl Endpoint {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The board there.
    pub fn board(&self) -> BoardKey<'_> {
        BoardKey(normal(&self.0))
    }

    /// Whether two addresses are one board.
    pub fn is_same_board(&self, other: &Endpoint) -> bool {
        self == other || self.board() == other.board()
    }
}

impl From<&str> for Endpoint {
    fn from(given: &str) -> Endpoint {
        Endpoint(given.to_owned())
    }
}

impl From<String> for Endpoint {
    fn from(given: String) -> Endpoint {
        Endpoint(given)
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BoardKey<'_> {
    /// The same, to be kept.
    pub fn into_owned(self) -> BoardKey<'static> {
        BoardKey(Cow::Owned(self.0.into_owned()))
    }

    /// Its address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for BoardKey<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The port boards listen on when their address names none.
const DEFAULT_PORT: &str = "80";

/// The form under which a board is looked up. The form of a form is itself.
fn normal(endpoint: &str) -> Cow<'_, str> {
    // Nearly every address is a plain one, and this is asked for every device at every reconcile: no copy then.
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-');
    let is_name = |text: &str| {
        text.rsplit('.').next().is_some_and(|l| l.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    if endpoint.bytes().all(plain) && (is_name(endpoint) || endpoint.parse::<Ipv4Addr>().is_ok()) {
        return Cow::Borrowed(endpoint);
    }
    let text = endpoint.trim().to_lowercase();
    let rest = text.strip_prefix("http://").unwrap_or(&text);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match rest.parse::<Ipv6Addr>() {
        Ok(_) => (rest, ""),
        Err(_) => match rest.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (rest, ""),
        },
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let (host, colons) = match inner.parse::<Ipv6Addr>() {
        Ok(address) => (address.to_string(), true),
        Err(_) => {
            let host = host.trim_end_matches('.');
            (ipv4(host).map_or_else(|| host.to_owned(), |address| address.to_string()), false)
        }
    };
    let port = port.trim_start_matches('0');
    Cow::Owned(match port {
        "" | DEFAULT_PORT => host,
        port if colons => format!("[{host}]:{port}"),
        port => format!("{host}:{port}"),
    })
}

/// An IPv4 address as URLs allow it: one to four numbers, each decimal, octal or hexadecimal, the last of which fills what is
/// left. Boards are dialled by URL, so `0xc000020b` is 192.0.2.11 there and must be here.
fn ipv4(host: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let numbers: Vec<u32> = host.split('.').take(5).map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    let bits = 32_u32.checked_sub(8 * u32::try_from(first.len()).ok()?).filter(|bits| *bits > 0)?;
    if u64::from(*last) >> bits > 0 || first.iter().any(|n| *n > 255) {
        return None;
    }
    let start = first.iter().enumerate().fold(0, |sum, (place, n)| sum | n << (24 - 8 * place));
    Some(Ipv4Addr::from(start | last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        Endpoint::from(one).is_same_board(&other.into())
    }

    #[test]
    fn one_board_has_one_form_however_it_is_written() {
        let forms = [
            (
                "192.0.2.11",
                "192.0.2.11 192.0.2.11:80 http://192.0.2.11/ HTTP://192.0.2.11:080/info?x 0xc000020b \
              3221225995 192.0.523 0300.0x0.2.013",
            ),
            ("board.local", "board.local Board.Local. board.local:80 http://BOARD.local"),
            ("192.0.2.11:8080", "192.0.2.11:8080 http://192.0.2.11:8080/ 192.0.2.11:08080"),
            ("fe80::1", "fe80::1 [fe80::1] [FE80:0::1]:80 http://[fe80::1]/"),
            ("[fe80::1]:8080", "[fe80::1]:8080 http://[FE80::01]:8080/x"),
        ];
        for (form, written) in forms {
            for text in written.split(' ') {
                assert_eq!(normal(text), form, "{text}");
                assert!(same(text, form) && same(&format!(" {text} "), form));
            }
            assert_eq!(normal(&normal(form)), form);
        }
        assert_eq!(normal("1.2.3.4.5"), "1.2.3.4.5", "no address, and left alone");
        assert!(!same("192.0.2.11", "192.0.2.12") && !same("192.0.2.11", "192.0.2.11:81"));
        assert_eq!(
            (normal(""), normal(" : "), normal("http://")),
            ("".into(), "".into(), "".into())
        );
    }
}
