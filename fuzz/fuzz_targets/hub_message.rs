//! Any bytes as what the hub reads from a client, and what a client's counter page holds.
#![no_main]

use hub::Snapshot;
use hub::message::{HubRequest, Reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = HubRequest::decode(bytes) {
        assert_eq!(HubRequest::decode(&request.encode()).expect("our own message"), request);
    }
    if let Ok(reply) = Reply::decode(bytes, &mut Vec::new()) {
        let (encoded, file) = reply.encode().expect("a message that was short enough");
        if file.is_none() {
            assert_eq!(Reply::decode(&encoded, &mut Vec::new()).expect("our own message"), reply);
        }
    }
    if let Ok(snapshot) = Snapshot::decode(bytes) {
        assert!(snapshot.iter().count() * 8 <= bytes.len());
    }
});
