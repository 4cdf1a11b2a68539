//! Packets of a hostile peer to both ends of a session of datagrams.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rpc::fuzzing::hostile_packets(bytes));
