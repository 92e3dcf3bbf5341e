//! What a device says of itself on `/info`.
//!
//! The firmware writes it into 100 bytes and cuts off what does not fit, so this reads as far as it goes.

/// A device's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The type of board.
    pub device: Option<String>,
    /// The version of its firmware.
    pub version: Option<String>,
    /// The version is the last thing in the answer and its end is missing.
    pub cut: bool,
}

impl Info {
    /// Reads the body of an answer; `None` if it says no version.
    pub fn read(body: &str) -> Option<Info> {
        let (version, cut) = field(body, "version")?;
        let version = Some(version).filter(|text| !text.is_empty())?;
        Some(Info { device: device(body), version: Some(version), cut })
    }

    /// Whether this is the wanted version for sure. A leading `v` does not count.
    pub fn runs(&self, wanted: &str) -> bool {
        !self.cut && self.may_run(wanted)
    }

    /// Whether this may be the wanted version: of one that is cut off only the beginning is known.
    pub fn may_run(&self, wanted: &str) -> bool {
        let (version, wanted) = (self.bare(), bare(wanted));
        !version.is_empty() && (version == wanted || (self.cut && wanted.starts_with(version)))
    }

    /// Whether these are two versions for sure, however much of each was cut off.
    pub fn differs_from(&self, other: &Info) -> bool {
        let (one, two) = (self.bare(), other.bare());
        match (self.cut, other.cut) {
            (false, false) => one != two,
            _ => !one.starts_with(two) && !two.starts_with(one),
        }
    }

    fn bare(&self) -> &str {
        bare(self.version.as_deref().unwrap_or_default())
    }

    /// The version, for people.
    pub fn version(&self) -> String {
        let cut = if self.cut { "… (cut off)" } else { "" };
        format!("{}{cut}", self.version.as_deref().unwrap_or("?"))
    }
}

/// The type of board an answer names, also where the version is cut off. `None` if it names none, or not to the end.
pub fn device(body: &str) -> Option<String> {
    let (device, cut) = field(body, "device")?;
    Some(device).filter(|text| !cut && !text.trim().is_empty())
}

fn bare(version: &str) -> &str {
    version.trim().trim_start_matches(['v', 'V'])
}

/// The value of a string field, and whether its end is missing.
fn field(body: &str, name: &str) -> Option<(String, bool)> {
    if let Ok(serde_json::Value::Object(whole)) = serde_json::from_str(body) {
        return whole.get(name)?.as_str().map(|value| (value.to_owned(), false));
    }
    let (_, rest) = body.split_once(&format!("\"{name}\""))?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    match rest.split_once('"') {
        Some((value, _)) => Some((value.to_owned(), false)),
        None => Some((rest.trim_end_matches('\0').to_owned(), true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_answer_is_read() {
        let info =
            Info::read(r#"{"device":"esp32s2","application":"thermo","version":"0.1.0"}"#).unwrap();
        assert_eq!(info.device.as_deref(), Some("esp32s2"));
        assert!(
            info.runs("0.1.0") && info.runs("v0.1.0") && !info.runs("0.1") && !info.runs("0.1.00")
        );
    }

    #[test]
    fn an_answer_that_is_cut_off_is_compared_as_far_as_it_goes() {
        let info =
            Info::read(r#"{"device":"esp32s2","application":"t","version":"0.2.0-bet"#).unwrap();
        assert!(info.cut && info.may_run("0.2.0-beta.1") && !info.may_run("0.2.1"));
        assert!(!info.runs("0.2.0-beta.1") && !info.runs("0.2.0-bet"), "what follows is not known");
        assert_eq!(info.version(), "0.2.0-bet… (cut off)");
        assert_eq!(Info::read(r#"{"device":"esp32s2","application":"a very long"#), None);
        assert_eq!(Info::read(r#"{"device":"esp32s2","version":"#), None);
        assert_eq!(Info::read(r#"{"device":"esp32s2","version":""#), None);
    }

    #[test]
    fn two_versions_differ_where_both_can_be_seen() {
        let info = |text: &str| Info {
            version: Some(text.trim_end_matches('…').into()),
            cut: text.ends_with('…'),
            ..Info::default()
        };
        for (one, two, differ) in [
            ("0.1.0", "0.2.0", true),
            ("v0.1.0", "0.1.0", false),
            ("0.1…", "0.2…", true),
            ("0.1.0", "0.2…", true),
            ("0.…", "0.2.0", false),
            ("0.…", "0.2…", false),
            ("0.2.0", "0.2.0…", false),
        ] {
            assert_eq!(info(one).differs_from(&info(two)), differ, "{one} {two}");
            assert_eq!(info(two).differs_from(&info(one)), differ, "{two} {one}");
        }
    }

    #[test]
    fn the_type_of_board_is_read_wherever_all_of_it_is_there() {
        for (body, named) in [
            (r#"{"device":"esp32s2","application":"a very long"#, Some("esp32s2")),
            (r#"{"application":"t","version":"1","device":"esp32"#, None),
            (r#"{"device":" ","version":"1"}"#, None),
            (r#"{"version":"1"}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(device(body).as_deref(), named, "{body}");
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for body in ["", "<html>", "{}", r#"{"version":7}"#, r#"{"version":""}"#] {
            assert_eq!(Info::read(body), None, "{body}");
        }
    }
}
