//! Texts of devices as they are kept: one line, without control characters, and not longer than anybody reads.

/// At most so many bytes of a text, with a sign that there was more.
pub fn line(said: &str, most: usize) -> String {
    let said = said.trim_matches(|c: char| c.is_control() || c.is_whitespace());
    let kept =
        if said.len() > most { head(said, most.saturating_sub('…'.len_utf8())) } else { said };
    let mut line: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if kept.len() < said.len() {
        line.push('…');
    }
    line
}

/// The same, where nothing is said by saying nothing.
pub fn maybe(said: &str, most: usize) -> Option<String> {
    Some(line(said, most)).filter(|line| !line.is_empty())
}

fn head(text: &str, most: usize) -> &str {
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_of_bounded_length() {
        assert_eq!(line("  no such\nimage\u{1b}[0m\0 ", 100), "no such image [0m");
        assert_eq!(line("abcdef", 6), "abcdef");
        assert_eq!(line("abcdefg", 6), "abc…");
        assert_eq!(line("äöü", 5), "ä…", "no character is cut in two");
        assert_eq!((maybe(" \n", 9), maybe("x", 9).as_deref()), (None, Some("x")));
    }
}
