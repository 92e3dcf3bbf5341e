//! How values are read that an agent, or who wrote a manifest, may have left out, and how times are read and written.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Null is the type's empty value.
pub(in crate::edge) fn or_empty<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Null is an empty list, and a null in a list is no entry.
pub(in crate::edge) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Option<Vec<Option<T>>> = Option::deserialize(from)?;
    Ok(entries.unwrap_or_default().into_iter().flatten().collect())
}

/// A list where null and empty are not the same: who sends null says nothing about it.
pub(in crate::edge) fn maybe_list<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Option<Vec<Option<T>>> = Option::deserialize(from)?;
    Ok(entries.map(|entries| entries.into_iter().flatten().collect()))
}

/// The same for names with values.
pub(in crate::edge) fn maybe_map<'de, D, T>(
    from: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Option<BTreeMap<String, Option<T>>> = Option::deserialize(from)?;
    let named = |(name, entry): (String, Option<T>)| Some((name, entry?));
    Ok(entries.map(|entries| entries.into_iter().filter_map(named).collect()))
}

/// What cannot be read is nothing: a key of ours that another agent may have for something else.
pub(super) fn or_nothing<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// Whether a value is left out when it is written.
pub(super) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// RFC 3339 with up to nine digits of a second, written with three. Go's zero time, in the year 1, is no time; so is an
/// empty text.
pub(super) mod time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// The first second of the year 2.
    const YEAR_2: i64 = -62_104_060_800;

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
        let time: Timestamp = text.parse().map_err(|_| {
            de::Error::invalid_value(de::Unexpected::Str(&text), &"a time as in RFC 3339")
        })?;
        Ok(Some(time).filter(|time| time.as_second() >= YEAR_2))
    }

    pub fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.collect_str(&format_args!("{time:.3}")),
            None => to.serialize_none(),
        }
    }
}
