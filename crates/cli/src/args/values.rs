//! Values as people write them.

use std::time::Duration;

/// A number or a percentage, as the operator takes it.
pub fn amount(text: &str) -> Result<String, String> {
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent = text.ends_with('%');
    match number.parse::<u32>() {
        Ok(n) if !percent || n <= 100 => Ok(text.to_owned()),
        _ => Err("write a number such as 5, or a percentage such as 25%".to_owned()),
    }
}

/// A length of time in whole seconds.
pub fn seconds(text: &str) -> Result<i32, String> {
    let duration = duration(text)?;
    i32::try_from(duration.as_secs()).map_err(|_| "that is too long".to_owned())
}

/// A length of time: `90`, `90s`, `5m`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err("write seconds such as 90, or 90s, 5m, 1h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write seconds such as 90, or 90s, 5m, 1h")?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(|| "that is too long".to_owned())
}
