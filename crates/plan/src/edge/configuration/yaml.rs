//! YAML that a parser of 1.1 reads as one of 1.2 does: the original's agent has one of the first kind, in Go, for which a bare
//! `y` is true and `1:30` is 90. Such texts are quoted, keys too, and texts of several lines are written in one.

use flashjob_api::edge::EdgeReason;
use serde::Serialize;
use serde_saphyr::{ser_options, to_string_with_options};

use super::material::Lack;
use crate::edge::problem::Problem;

/// One document, that ends with its line.
pub(super) fn write(value: &impl Serialize) -> Result<String, Lack> {
    let options = ser_options! { prefer_block_scalars: false };
    to_string_with_options(value, options).map_err(|error| {
        let message = format!("the pod or a ConfigMap of it cannot be written as YAML: {error}");
        Lack::Problems(vec![Problem::new(EdgeReason::InvalidSpec, message)])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn around(value: &Value) -> String {
        let text = write(value).unwrap();
        assert_eq!(&serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
        text
    }

    #[test]
    fn what_yaml_of_any_age_reads_as_something_else_is_quoted() {
        let words = [
            "true",
            "False",
            "1",
            "0x1",
            "0o17",
            "017",
            "1_000",
            "1e3",
            ".5",
            "1:30",
            "null",
            "~",
            "",
            "y",
            "N",
            "on",
            "Off",
            "yes",
            "NO",
            "2024-01-01",
            "=",
            "<<",
            ".inf",
            ".NaN",
            "---",
            "- a",
            "a: b",
            "a #b",
            "#a",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "{a",
            "[a",
            "'a",
            "|",
            ">",
            "?",
            " a",
            "a ",
            "a\tb",
        ];
        for word in words {
            let text = around(&json!({ "key": word }));
            assert_eq!(text, format!("key: {}\n", json!(word)), "as a value");
            let text = around(&json!({ word: "value" }));
            assert_eq!(text, format!("{}: value\n", json!(word)), "as a key");
        }
    }

    #[test]
    fn texts_of_several_lines_come_back_as_they_were() {
        for lines in
            ["a\nb\n", "a\n---\nb", "\n a\n\n", "a\r\nb", "  ", "\u{feff}a", "a\u{2028}b\u{85}"]
        {
            let text = around(&json!({ "key": lines }));
            assert_eq!(text.lines().count(), 1, "{text:?}");
        }
        let long = "word ".repeat(100);
        assert_eq!(around(&json!({ "key": long })).lines().count(), 1);
    }

    #[test]
    fn keys_are_in_their_order_and_numbers_stay_numbers() {
        let value = json!({
            "b": [{ "d": 1, "c": true }, []], "a": { "z": null, "f": 0.5, "i": -1 }, "e": {}
        });
        let wanted = "a:\n  f: 0.5\n  i: -1\n  z: null\nb:\n- c: true\n  d: 1\n- []\ne: {}\n";
        assert_eq!(around(&value), wanted);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_key_and_as_value(
            key in "\\PC{0,8}|.{0,8}",
            text in any::<String>(),
        ) {
            around(&json!({ "list": [text, { &key: text }], "map": { &key: [text] } }));
        }
    }
}
