//! Files that are made by hand.

use super::{RdbError, RdbReader, RdbString};

/// A file of this version with these records, and a checksum if that version has one.
fn file(version: u32, records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("REDIS{version:04}").into_bytes();
    bytes.extend(records.concat());
    bytes.push(255);
    if version >= 5 {
        let checksum = crc::Crc::<u64>::new(&crc::CRC_64_REDIS).checksum(&bytes);
        bytes.extend(checksum.to_le_bytes());
    }
    bytes
}

type Strings = Vec<RdbString>;
type Others = Vec<(&'static str, u64)>;

fn read(bytes: &[u8]) -> Result<(Strings, Others), RdbError> {
    let (mut rdb, mut all) = (RdbReader::new(bytes)?, Vec::new());
    while let Some(found) = rdb.next_string()? {
        all.push(found);
    }
    Ok((all, rdb.others().clone().into_iter().collect()))
}

fn value(version: u32, bytes: &[u8]) -> Result<Vec<u8>, RdbError> {
    let (mut all, _) = read(&file(version, &[b"\x00\x01k", bytes]))?;
    Ok(all.remove(0).value)
}

#[test]
fn strings_have_all_encodings() {
    for version in [1, 3, 4, 5, 9, 11] {
        for (bytes, wanted) in [
            (&b"\x00"[..], &b""[..]),
            (b"\x03abc", b"abc"),
            (b"\x40\x03abc", b"abc"),
            (b"\x80\x00\x00\x00\x03abc", b"abc"),
            (b"\x81\x00\x00\x00\x00\x00\x00\x00\x03abc", b"abc"),
            (b"\xC0\x80", b"-128"),
            (b"\xC1\x00\x80", b"-32768"),
            (b"\xC2\xFF\xFF\xFF\x7F", b"2147483647"),
            (b"\xC3\x04\x0A\x00a\xE0\x00", b""),
        ] {
            let is_torn = wanted.is_empty() && bytes.len() > 1;
            match value(version, bytes) {
                Ok(value) => assert_eq!((value.as_slice(), is_torn), (wanted, false)),
                // The copy lacks its last byte.
                Err(error) => assert!(is_torn && matches!(error, RdbError::Damaged { .. }), "{error}"),
            }
        }
        assert_eq!(value(version, b"\xC3\x05\x0A\x00a\xE0\x00\x00").unwrap(), b"aaaaaaaaaa");
    }
}

#[test]
fn databases_and_expiries_belong_to_their_keys() {
    let bytes = file(
        9,
        &[
            b"\xFA\x09redis-ver\x056.2.0\xFE\x02\xFB\x40\x01\x00",
            b"\xFD\x01\x00\x00\x00\x00\x01a\x01A",
            b"\xFC\x02\x00\x00\x00\x00\x00\x00\x00\xF9\x07\x00\x01b\x01B",
            b"\xF8\x05\x00\x01c\x01C",
            b"\xFC\x09\x00\x00\x00\x00\x00\x00\x00\x01\x01l\x01\x01x",
            b"\xFE\x00\x00\x01d\x01D",
        ],
    );
    let (all, others) = read(&bytes).unwrap();
    let facts: Vec<_> = all.iter().map(|one| (one.key[0], one.value[0], one.database, one.expires_unix_ms)).collect();
    let wanted = [(b'a', b'A', 2, Some(1000)), (b'b', b'B', 2, Some(2)), (b'c', b'C', 2, None), (b'd', b'D', 0, None)];
    assert_eq!((facts.as_slice(), others), (wanted.as_slice(), vec![("list", 1)]));
}

#[test]
fn old_and_rare_types_are_passed_over_by_name() {
    let bytes = file(
        7,
        &[
            b"\x02\x01k\x02\x01x\xC0\x07",
            b"\x03\x01k\x03\x01x\x011\x01y\xFE\x01z\xFF",
            b"\x04\x01k\x01\x01f\x01v\x05\x01k\x01\x01x12345678",
            b"\x07\x01k\x81\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x02\x06\x031234\x0412345678\x05\x01s\x00",
            b"\xF7\x01\x02\x02\x05\x01s\x00\xF5\x01f",
            b"\x09\x01k\x01x\x0A\x01k\x01x\x0B\x01k\x01x\x0C\x01k\x01x\x0D\x01k\x01x\x0E\x01k\x01\x01x",
            b"\x00\x01k\x01v",
        ],
    );
    let (all, others) = read(&bytes).unwrap();
    let wanted =
        [("function", 1), ("hash", 3), ("list", 2), ("module", 1), ("module data", 1), ("set", 2), ("zset", 3)];
    assert_eq!((all.len(), others.as_slice()), (1, wanted.as_slice()));
}

#[test]
fn torn_and_changed_files_are_refused() {
    let bytes = file(10, &[b"\xFE\x00\x00\x01k\x03abc\x00\x01l\xC0\x07"]);
    assert_eq!(read(&bytes).unwrap().0.len(), 2);
    for len in 0..bytes.len() {
        let error = read(&bytes[..len]).unwrap_err();
        assert!(matches!(error, RdbError::Torn(at) if at == len as u64) || len < 9, "{len}: {error}");
    }
    for at in 9..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        assert!(read(&changed).is_err(), "byte {at}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(read(&longer).unwrap_err().to_string().contains("bytes follow the end"));
    let mut without = bytes.clone();
    let end = without.len() - 8;
    without[end..].fill(0);
    assert_eq!(read(&without).unwrap().0.len(), 2, "Redis was told to make no checksum");
    for (head, words) in
        [("REDIS0012", "version 12"), ("REDIS0000", "version 0"), ("REDIS00x1", "no RDB"), ("", "no RDB")]
    {
        assert!(read(head.as_bytes()).unwrap_err().to_string().contains(words), "{head}");
    }
}

#[test]
fn hostile_lengths_take_no_memory() {
    for records in [
        // A string of 2^63 bytes, one of 512 MiB that are not there, and a small one that claims to unpack to 2^63.
        &b"\x00\x01k\x81\x80\x00\x00\x00\x00\x00\x00\x00x"[..],
        b"\x00\x01k\x80\x20\x00\x00\x00x",
        b"\x00\x01k\xC3\x02\x81\x80\x00\x00\x00\x00\x00\x00\x00\x00a",
        // A list of 2^64 - 1 entries; a stream whose consumer has as many.
        b"\x01\x01k\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01x",
        b"\x0F\x01k\x00\x00\x00\x00\x01\x01g\x00\x00\x00\x01\x01c12345678\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFx",
        // No such encoding, length, type, record, part of a module.
        b"\x00\x01k\xC4",
        b"\x00\x01k\x82",
        b"\x08\x01k",
        b"\xF6",
        b"\x07\x01k\x01\x09",
    ] {
        assert!(read(&file(10, &[records])).is_err(), "{records:?}");
    }
}
