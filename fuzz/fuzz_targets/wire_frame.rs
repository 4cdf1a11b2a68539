//! Any bytes as an Ethernet frame, and as the payload of one.
#![no_main]

use std::net::Ipv6Addr;

use libfuzzer_sys::fuzz_target;
use wire::Flow;
use wire::frame::{self, EthernetFrame, MAX_UDP_PAYLOAD_BYTES};

const ETHERNET_LEN: usize = 14;

fuzz_target!(|input: (Ipv6Addr, Ipv6Addr, u16, &[u8])| {
    let (source, destination, source_port, bytes) = input;
    if let Some(decoded) = frame::decode(bytes) {
        assert_same(&decoded);
    }
    // Mapped addresses make it IPv4.
    let flow = Flow { source: source.into(), destination: destination.into(), source_port };
    let made = EthernetFrame {
        flow,
        identification: source_port,
        tos: 0x2e,
        ttl: 61,
        payload: &bytes[..bytes.len().min(MAX_UDP_PAYLOAD_BYTES)],
    };
    assert_same(&made);
});

/// Encodes the frame and asserts that it decodes to the same.
fn assert_same(frame: &EthernetFrame<'_>) {
    if frame.payload.len() > MAX_UDP_PAYLOAD_BYTES {
        return;
    }
    let mut encoded = vec![0; 3];
    frame::encode(&frame.flow, frame.identification, frame.tos, frame.ttl, frame.payload, &mut encoded)
        .expect("it fits");
    let again = frame::decode(&encoded[3..]).expect("our own frame");
    assert!(encoded.len() >= 3 + ETHERNET_LEN + frame.payload.len());
    assert_eq!(again.payload, frame.payload);
    assert_eq!((again.tos, again.ttl), (frame.tos, frame.ttl));
    assert_eq!(again.flow.is_ipv4(), frame.flow.is_ipv4());
    assert_eq!(again.flow.source_port, frame.flow.source_port);
    let v4 = frame.flow.is_ipv4();
    assert_eq!(again.identification, if v4 { frame.identification } else { 0 });
}
