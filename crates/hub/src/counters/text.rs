//! A snapshot as a serialized map, in the order of the page.

use super::Snapshot;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Snapshot, D::Error> {
        from.deserialize_map(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Snapshot;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from counter names to values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Snapshot, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Snapshot(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_a_map_in_the_order_of_the_page() {
        let snapshot = Snapshot(vec![("sent".into(), u64::MAX), ("dropped".into(), 2)]);
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(text, r#"{"sent":18446744073709551615,"dropped":2}"#);
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
        assert!(serde_json::from_str::<Snapshot>("[1]").is_err());
    }
}
