//! Metadata: names and values that travel with a request or a reply, as gRPC's headers do.

/// Bytes that all names and values may have together, encoded.
pub const MAX_METADATA_BYTES: usize = 8192;

/// Names and values beside a message, in the order in which they were added. A name may occur several times.
///
/// ```
/// let mut metadata = longarm_rpc::Metadata::default();
/// metadata.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// assert!(metadata.get("traceparent").is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Vec<(String, Vec<u8>)>);

impl Metadata {
    /// Adds a value under a name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) {
        self.0.push((name.into(), value.into()));
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that [`encode`](Metadata::encode) adds.
    pub fn encoded_bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| 3 + name.len() + value.len()).sum()
    }

    /// Appends the encoding: for each entry the length of the name (1 byte), the length of the value (2 bytes, little
    /// endian), the name, the value. Entries whose lengths do not fit are left out; the client refuses them before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (name, value) in self.0.iter().filter(|entry| fits(entry)) {
            out.push(name.len() as u8);
            out.extend_from_slice(&(value.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value);
        }
    }

    /// True if it can be encoded: names of 1 to 255 bytes, values of at most 65,535, [`MAX_METADATA_BYTES`] in all.
    pub fn is_encodable(&self) -> bool {
        self.encoded_bytes() <= MAX_METADATA_BYTES && self.0.iter().all(fits)
    }

    /// Decodes all of `bytes`; `None` if they are no encoding.
    pub fn decode(mut bytes: &[u8]) -> Option<Metadata> {
        let mut metadata = Metadata::default();
        while !bytes.is_empty() {
            let ([name_bytes, low, high], rest) = bytes.split_first_chunk()?;
            let value_bytes = usize::from(u16::from_le_bytes([*low, *high]));
            let (name, rest) = rest.split_at_checked(usize::from(*name_bytes))?;
            let (value, rest) = rest.split_at_checked(value_bytes)?;
            metadata.insert(std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?, value);
            bytes = rest;
        }
        Some(metadata)
    }
}

fn fits((name, value): &(String, Vec<u8>)) -> bool {
    (1..=usize::from(u8::MAX)).contains(&name.len()) && value.len() <= usize::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_decodes_to_the_same() {
        let mut metadata = Metadata::default();
        metadata.insert("a", "1");
        metadata.insert("bin", vec![0, 255]);
        metadata.insert("a", "");
        let mut bytes = Vec::new();
        metadata.encode(&mut bytes);
        assert_eq!(bytes.len(), metadata.encoded_bytes());
        assert_eq!(Metadata::decode(&bytes), Some(metadata));
    }

    #[test]
    fn cut_and_nameless_entries_are_refused() {
        for bytes in [&[1][..], &[1, 0, 0], &[1, 1, 0, b'a'], &[0, 1, 0, b'a'], &[1, 0, 0, 0xff]] {
            assert_eq!(Metadata::decode(bytes), None, "{bytes:?}");
        }
    }
}
