//! Metadata of both kinds, and deadlines.

use std::time::{Duration, Instant};

use ::tonic::metadata::{
    AsciiMetadataKey, AsciiMetadataValue, BinaryMetadataKey, BinaryMetadataValue, KeyAndValueRef, MetadataMap,
};

use crate::metadata::Metadata;
use crate::status::Status;

/// The header with the time that is left.
pub(super) const TIMEOUT: &str = "grpc-timeout";
/// The trailer that answers whether the server executed the call.
pub(super) const EXECUTED: &str = "longarm-executed";

/// The metadata as gRPC has them.
///
/// # Errors
/// A name that is no header's name, or a value that gRPC carries only under a name that ends with `-bin`.
pub(super) fn to_grpc(metadata: &Metadata) -> Result<MetadataMap, Status> {
    let mut map = MetadataMap::new();
    for (name, value) in metadata.iter() {
        add(&mut map, name, value)
            .ok_or_else(|| Status::invalid_argument(format!("gRPC cannot carry the metadata {name:?}")))?;
    }
    Ok(map)
}

fn add(map: &mut MetadataMap, name: &str, value: &[u8]) -> Option<()> {
    if is_reserved(name) {
        return None;
    }
    if name.ends_with("-bin") {
        let key = BinaryMetadataKey::from_bytes(name.as_bytes()).ok()?;
        map.append_bin(key, BinaryMetadataValue::from_bytes(value));
    } else {
        let key = AsciiMetadataKey::from_bytes(name.as_bytes()).ok()?;
        map.append(key, AsciiMetadataValue::try_from(value).ok()?);
    }
    Some(())
}

/// The metadata of a request or reply of gRPC, without the headers of the protocol. Values that do not decode are left out.
pub(super) fn from_grpc(map: &MetadataMap) -> Metadata {
    let mut metadata = Metadata::default();
    for entry in map.iter() {
        match entry {
            KeyAndValueRef::Ascii(key, value) if !is_reserved(key.as_str()) => {
                metadata.insert(key.as_str(), value.as_bytes());
            }
            KeyAndValueRef::Binary(key, value) => {
                if let Ok(bytes) = value.to_bytes() {
                    metadata.insert(key.as_str(), bytes);
                }
            }
            KeyAndValueRef::Ascii(..) => {}
        }
    }
    metadata
}

/// Headers of HTTP and of the protocol, which are not metadata.
fn is_reserved(name: &str) -> bool {
    const HEADERS: &[&str] = &["te", "content-type", "content-length", "user-agent", "date", "host", EXECUTED];
    HEADERS.contains(&name) || name.starts_with("grpc-") || name.starts_with(':')
}

/// The moment at which the caller stops waiting, from its header. A header that does not follow the protocol is ignored.
///
/// Source: gRPC over HTTP/2 (doc/PROTOCOL-HTTP2.md), Timeout: at most 8 digits and a unit.
pub(super) fn deadline(map: &MetadataMap) -> Option<Instant> {
    let text = map.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    let timeout = match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Instant::now().checked_add(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_go_there_and_back() {
        let mut metadata = Metadata::default();
        metadata.insert("language", "de");
        metadata.insert("token-bin", vec![0, 255]);
        metadata.insert("language", "en");
        let mut map = to_grpc(&metadata).unwrap();
        map.insert("grpc-encoding", "identity".parse().unwrap());
        let mut back: Vec<_> = from_grpc(&map).iter().map(|(n, v)| (n.to_owned(), v.to_vec())).collect();
        back.sort();
        assert_eq!(
            back,
            [
                ("language".to_string(), b"de".to_vec()),
                ("language".to_string(), b"en".to_vec()),
                ("token-bin".to_string(), vec![0, 255])
            ]
        );
    }

    #[test]
    fn names_and_values_that_grpc_lacks_are_refused() {
        for (name, value) in [("two words", "x"), ("", "x"), ("grpc-timeout", "1S"), ("te", "x"), ("name", "\u{1}")] {
            let mut metadata = Metadata::default();
            metadata.insert(name, value);
            assert!(to_grpc(&metadata).is_err(), "{name:?}: {value:?}");
        }
    }

    #[test]
    fn timeouts_follow_the_protocol() {
        let of = |text: &str| {
            let mut map = MetadataMap::new();
            map.insert(TIMEOUT, text.parse().unwrap());
            deadline(&map)
        };
        for good in ["99999999H", "1M", "0S", "5m", "12345678u", "7n"] {
            assert!(of(good).is_some(), "{good}");
        }
        for bad in ["", "S", "123456789S", "-1S", "+1S", "1x", "1", "1é"] {
            assert!(of(bad).is_none(), "{bad}");
        }
        let left = of("1H").unwrap().saturating_duration_since(Instant::now());
        assert!(left > Duration::from_secs(3000) && left <= Duration::from_secs(3600));
    }
}
