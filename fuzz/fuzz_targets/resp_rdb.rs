//! Bytes of an RDB file: no panic, no more memory than the file pays for, and records are the same with any checksum that is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resp::RdbReader;

/// LZF makes 264 bytes of 3 at most.
const MOST_GROWTH: usize = 88;

fuzz_target!(|records: &[u8]| {
    // Version 4 has no checksum, which a fuzzer does not find.
    let file = [b"REDIS0004", records].concat();
    let Ok(mut rdb) = RdbReader::new(file.as_slice()) else { unreachable!("the head is right") };
    let mut bytes = 0;
    while let Ok(Some(found)) = rdb.next_string() {
        bytes += found.key.len() + found.value.len();
    }
    // The shortest string of digits grows from two bytes to four.
    assert!(bytes <= records.len() * MOST_GROWTH);
    assert!(matches!(rdb.next_string(), Ok(None)), "it has ended");
});
