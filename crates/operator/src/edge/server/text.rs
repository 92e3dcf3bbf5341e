//! Words from outside, made fit for a log, a header and a terminal.

/// The longest sentence that leaves the server, in bytes.
const LONGEST: usize = 512;

/// Printable ASCII and nothing else, of bounded length: any other character is written as Rust would.
pub fn plain(text: &str) -> String {
    bounded(text, LONGEST)
}

/// The same, for a part of a sentence.
pub fn part(text: &str) -> String {
    bounded(text, 100)
}

fn bounded(text: &str, most: usize) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        let from = plain.len();
        match c {
            ' '..='~' => plain.push(c),
            _ => plain.extend(c.escape_default()),
        }
        if plain.len() > most {
            plain.truncate(from);
            plain.push_str("...");
            break;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_printable_ascii_and_not_too_much_of_it() {
        assert_eq!(plain("a device: ok"), "a device: ok");
        assert_eq!(
            plain("a\r\nSet-Cookie: b\u{1b}[31mü"),
            "a\\r\\nSet-Cookie: b\\u{1b}[31m\\u{fc}"
        );
        assert_eq!(part(&"x".repeat(1000)).len(), 103);
        assert!(plain(&"\u{10ffff}".repeat(1000)).len() <= LONGEST + 3);
    }
}
