//! Any bytes as a packet from BTH to pad.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Packet;

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    let extensions = packet.extensions();
    assert!(extensions.fit(packet.info()));
    if let Some(aeth) = packet.aeth() {
        let _ = aeth.syndrome.kind();
    }

    let mut encoded = Vec::new();
    extensions.encode_packet(&packet.bth(), packet.payload(), &mut encoded);
    assert_eq!(encoded.len(), bytes.len());
    let again = Packet::parse(&encoded).expect("our own packet");
    assert_eq!(again.bth(), packet.bth());
    assert_eq!(again.extensions(), extensions);
    assert_eq!(again.payload(), packet.payload());
});
