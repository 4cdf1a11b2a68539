//! Records in memory that a hostile peer writes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rpc::fuzzing::records(bytes));
