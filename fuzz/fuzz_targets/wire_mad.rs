//! Any bytes as the packet of a MAD, and as a MAD of the connection manager.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Psn;
use wire::mad;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = mad::packet::parse(bytes) {
        check(packet.mad);
    }
    if let Some(mad) = bytes.first_chunk() {
        check(mad);
    }
});

fn check(bytes: &[u8; mad::MAD_LEN]) {
    let packet = mad::packet::encode(Psn::new(1), bytes);
    let parsed = mad::packet::parse(&packet[..packet.len() - wire::ICRC_LEN]).expect("our own packet");
    assert_eq!(parsed.mad, bytes);

    let Ok((header, message)) = mad::decode(bytes) else {
        return;
    };
    let encoded = mad::encode(&header, &message);
    assert_eq!(mad::decode(&encoded), Ok((header, message)));
    if let Some(answer) = cm::refuse(bytes) {
        assert_eq!(cm::refuse(&answer), None, "refusals are not refused");
    }
}
