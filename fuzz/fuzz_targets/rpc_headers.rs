//! Bytes of a hostile peer as a message, as metadata and as a key to a large message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rpc::fuzzing::headers(bytes));
