//! Tables the way kubectl prints them: columns with blanks between them, and nothing at the ends of lines.

/// A header and lines, as text.
pub fn table<const N: usize>(header: [&str; N], lines: &[[String; N]]) -> String {
    let mut text = String::new();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| width(&line[column]));
        cells.chain([header[column].len()]).max().unwrap_or_default()
    });
    let mut line = |cells: [&str; N]| {
        let start = text.len();
        for (cell, full) in cells.iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', full - width(cell) + 3));
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    };
    line(header);
    for cells in lines {
        line(std::array::from_fn(|column| cells[column].as_str()));
    }
    text
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A cell that may be empty.
pub fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { crate::shell::clean(text) }
}

/// How long ago something was, as kubectl writes it: 45s, 3m, 5h, 12d.
pub fn ago(since: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Such as "1 device", "2 devices".
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The day of a time, for people.
pub fn day(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let lines = [["a".to_owned(), "längst".to_owned()], ["longer".to_owned(), String::new()]];
        assert_eq!(table(["NAME", "X"], &lines), "NAME     X\na        längst\nlonger\n");
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        let at = |second| jiff::Timestamp::from_second(second).unwrap();
        let told = [0, 119, 120, 7199, 7200, 172_800].map(|s| ago(at(0), at(s)));
        assert_eq!(told, ["0s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!(ago(at(5), at(0)), "0s", "clocks differ");
    }
}
