//! Any bytes as a datagram of any flow: as it comes, and with its ICRC made right.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use wire::icrc::{self, Check};
use wire::{Bth, Flow};

type Input<'a> = (bool, Ipv6Addr, Ipv6Addr, u16, u16, u16, &'a [u8]);

fuzz_target!(|input: Input<'_>| {
    let (v4, source, destination, source_port, identification, guess, bytes) = input;
    let flow = Flow { source: address(v4, source), destination: address(v4, destination), source_port };
    let _ = icrc::check(&flow, bytes, guess);

    let mut datagram = bytes.to_vec();
    let icrc = icrc::compute(&flow, identification, bytes);
    datagram.extend_from_slice(&icrc.to_le_bytes());
    let expected = if bytes.len() < Bth::LEN || bytes.len() > 0xf000 {
        return;
    } else if guess == identification || !flow.is_ipv4() {
        Check::Good
    } else {
        Check::Identification(identification)
    };
    assert_eq!(icrc::check(&flow, &datagram, guess), expected);
});

fn address(v4: bool, address: Ipv6Addr) -> IpAddr {
    let [.., a, b, c, d] = address.octets();
    if v4 { Ipv4Addr::new(a, b, c, d).into() } else { address.into() }
}
