//! The header `Prefer` (RFC 7240), of which one preference means something here: `wait=N`.

use http::{HeaderMap, HeaderName};

const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The most that is granted, in seconds. It has to be less than what middleboxes let a connection be silent for.
const LONGEST: u32 = 60;

/// For how many seconds the client would wait. What cannot be read is not there, and neither is nothing to wait for.
pub fn wait(headers: &HeaderMap) -> Option<u32> {
    let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    // What comes behind a semicolon is about the preference, and none itself.
    let mut preferences = lines
        .flat_map(|line| parts(line, ','))
        .filter_map(|preference| parts(preference, ';').next()?.split_once('='));
    // Of several the first counts.
    let (_, seconds) = preferences.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    let seconds = unquoted(seconds.trim());
    if seconds.is_empty() || !seconds.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Digits that are no number are a very large one.
    Some(seconds.parse().unwrap_or(u32::MAX).min(LONGEST)).filter(|seconds| *seconds > 0)
}

/// The parts of a value; what is in quotes is left alone.
fn parts(value: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    value.split(move |c| {
        let ends = c == separator && !quoted;
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        ends
    })
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(lines: &[&[u8]]) -> Option<u32> {
        let line = |line: &&[u8]| (PREFER, HeaderValue::from_bytes(line).unwrap());
        wait(&lines.iter().map(line).collect())
    }

    #[test]
    fn wait_is_found_among_others_however_it_is_written() {
        for line in [
            "wait=30",
            "WAIT = \t30",
            "wait=\"30\"",
            "respond-async, wait=30",
            ",, wait=30;foo=\"a, wait=2\";bar ,handling=lenient",
            "foo=\"a, wait=1; \\\", wait=2\", wait=30",
            "return=minimal; wait=5, wait=30, wait=7",
            "wait=00030",
        ] {
            assert_eq!(of(&[line.as_bytes()]), Some(30), "{line}");
        }
        assert_eq!(of(&[b"return=minimal", b"a=b, wait=7", b"wait=30"]), Some(7));
        assert_eq!(of(&[b"\xff, wait=7", b"wait=8"]), Some(8), "that line is no text");
    }

    #[test]
    fn a_minute_is_the_most() {
        for line in ["wait=60", "wait=61", "wait=4294967296", "wait=99999999999999999999999"] {
            assert_eq!(of(&[line.as_bytes()]), Some(60), "{line}");
        }
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!(of(&[]), None);
        for line in [
            "",
            "wait",
            "wait=",
            "wait=0",
            "wait=-1",
            "wait=+1",
            "wait=1.5",
            "wait=1s",
            "wait=\"",
            "wait=\"\"",
            "wait=0x10",
            "wait==5",
            "await=5",
            "wait 5",
            "foo=\"wait=5",
            "foo; wait=5",
        ] {
            assert_eq!(of(&[line.as_bytes()]), None, "{line}");
        }
    }
}
