//! Labels of an EdgeDevice that come from elsewhere: from its hardware, and from its way into the cluster.

/// No key is in use yet: the registration certificate may register the device.
pub const UNCLAIMED: &str = "edgedeviceSignedRequest";

/// What labels that come from the hardware begin with.
pub const HARDWARE: &str = "device.";

/// The EdgeDeviceSet that a device is in.
pub const SET: &str = "flotta/member-of";

/// Labels and annotations with these beginnings are ours or Flotta's, and count in no selector.
pub const WORKLOAD: &str = "workload/";

/// A label's value has at most so many characters.
const LONGEST: usize = 63;

/// A text of the hardware as the value of a label: in lower case, without what no label may have, and with a letter or digit
/// at both ends. `None` if nothing is left.
pub fn value(text: &str) -> Option<String> {
    let allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(*c);
    let kept: String = text.to_lowercase().chars().filter(allowed).take(LONGEST).collect();
    let kept = kept.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_of_the_hardware_becomes_a_label_or_none() {
        let cases = [
            ("x86_64", Some("x86_64")),
            ("Intel(R) Core(TM) i7-6820HQ CPU @ 2.70GHz", Some("intelrcoretmi7-6820hqcpu2.70ghz")),
            ("  LENOVO\n", Some("lenovo")),
            ("--_.", None),
            ("", None),
            ("日本", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(value(text).as_deref(), wanted, "{text:?}");
        }
        let long = value(&"a-".repeat(60)).unwrap();
        assert!(long.len() <= LONGEST && long.ends_with('a'));
    }
}
