//! A file that a real Redis has written: all its strings are read as Redis tells them, and all else is passed over.

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use longarm_resp::{RdbError, RdbReader, RdbString};
use support::{REDIS, Raw, redis_with, with_hub};

/// Strings of each encoding, by key.
fn strings() -> Vec<(String, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut all = vec![("empty".into(), Vec::new()), ("binary".into(), (0..=255).collect())];
    for number in [0_i64, 1, -128, 127, 128, -129, 32767, -32768, 32768, 1 << 31, -(1 << 31), (1 << 31) - 1, i64::MAX] {
        all.push((format!("number {number}"), number.to_string().into()));
    }
    all.push(("no number".into(), b"007".to_vec()));
    for len in [20, 21, 63, 64, 300, 16_383, 16_384, 70_000, 200_000] {
        all.push((format!("same {len}"), vec![b'x'; len]));
        all.push((format!("words {len}"), (0..len).map(|_| b"abcdefgh"[random.usize(..2 + len % 7)]).collect()));
        all.push((format!("random {len}"), (0..len).map(|_| random.u8(..)).collect()));
    }
    all
}

/// Commands that make keys of other types, in their short and their long forms.
const OTHERS: &[&str] = &[
    "RPUSH list a 7 b",
    "SADD numbers 1 2 3",
    "SADD words a b",
    "ZADD scores 1 a 2.5 b",
    "HSET hash f v",
    "XADD stream * f v",
    "XADD stream * f w",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group reader COUNT 1 STREAMS stream >",
    "PFADD estimate a b",
    "CONFIG SET list-max-listpack-size 2",
    "RPUSH longlist a b c d e f g",
    "CONFIG SET zset-max-listpack-entries 1",
    "ZADD bigscores 1 a 2 b 3 c",
    "CONFIG SET hash-max-listpack-entries 1",
    "HSET bighash f v g w",
];

#[test]
fn a_file_of_redis_has_what_redis_has() {
    with_hub("a_file_of_redis_has_what_redis_has", || {
        let dir = testkit::TestDir::new("resp-rdb");
        let _redis = redis_with(&["--dir", &dir.path().display().to_string()]);
        let mut redis = Raw::connect(REDIS);
        let mut wanted = BTreeMap::new();
        for (key, value) in strings() {
            redis.send(&[b"SET".to_vec(), key.clone().into_bytes(), value.clone()]);
            assert_eq!(redis.reply().unwrap(), b"+OK\r\n");
            wanted.insert((0, key.into_bytes()), (value, None));
        }
        assert_eq!(redis.ask(&["SET", "soon", "x", "PXAT", "4000000000123"]), "+OK\r\n");
        wanted.insert((0, b"soon".to_vec()), (b"x".to_vec(), Some(4_000_000_000_123)));
        assert_eq!(redis.ask(&["SELECT", "9"]), "+OK\r\n");
        assert_eq!(redis.ask(&["SET", "elsewhere", "12"]), "+OK\r\n");
        wanted.insert((9, b"elsewhere".to_vec()), (b"12".to_vec(), None));
        for command in OTHERS {
            let reply = redis.ask(&command.split(' ').collect::<Vec<_>>());
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        // It is a string.
        redis.ask(&["DEL", "estimate"]);
        assert_eq!(redis.ask(&["SAVE"]), "+OK\r\n");

        let path = dir.path().join("dump.rdb");
        let mut rdb = RdbReader::new(File::open(&path).unwrap()).unwrap();
        let mut found = BTreeMap::new();
        while let Some(RdbString { database, key, value, expires_unix_ms }) = rdb.next_string().unwrap() {
            found.insert((database, key), (value, expires_unix_ms));
        }
        assert!(found == wanted, "{:?} and {:?}", found.keys(), wanted.keys());
        let others: Vec<_> = rdb.others().iter().map(|(name, count)| (*name, *count)).collect();
        assert_eq!(others, [("hash", 2), ("list", 2), ("set", 2), ("stream", 1), ("zset", 2)]);
        changed_files_are_refused(&path);
    });
}

/// Wherever a bit is another one, the reader says so, at the checksum at the latest.
fn changed_files_are_refused(path: &std::path::Path) {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    let read = |bytes: &[u8]| -> Result<(), RdbError> {
        let mut rdb = RdbReader::new(bytes)?;
        while rdb.next_string()?.is_some() {}
        Ok(())
    };
    read(&bytes).unwrap();
    // The head and the end have most kinds of records.
    let places = (9..300).step_by(9).chain((bytes.len() - 300..bytes.len()).step_by(9));
    for at in places {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(read(&changed).is_err(), "byte {at}");
    }
}
