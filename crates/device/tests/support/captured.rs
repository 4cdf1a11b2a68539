//! The packets of a capture, read by our own decoder and by Wireshark's.

use std::path::Path;
use std::process::Command;

use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use wire::{Bth, Extensions, Packet, frame, icrc};

/// A packet that no wire has carried.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) outbound: bool,
    pub(crate) bth: Bth,
    pub(crate) extensions: Extensions,
    pub(crate) payload: Vec<u8>,
}

impl Captured {
    pub(crate) fn is_request(&self) -> bool {
        self.bth.opcode.info().is_some_and(|info| info.is_request())
    }
}

/// The packets of a capture, all of which must be whole and of the interface that stands for shared memory.
pub(crate) fn packets(path: &Path) -> Vec<Captured> {
    let bytes = std::fs::read(path).expect("the capture is there");
    let mut reader = PcapNgReader::new(bytes.as_slice()).expect("a pcapng file");
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        let Some(block) = block.expect("a whole block").into_enhanced_packet() else { continue };
        assert_eq!(block.interface_id, 1, "nothing was on a wire");
        let frame = frame::decode(&block.data).expect("a frame");
        let check = icrc::check(&frame.flow, frame.payload, frame.identification);
        assert_eq!(check, icrc::Check::Good);
        let packet = &frame.payload[..frame.payload.len() - wire::ICRC_LEN];
        let packet = Packet::parse(packet).expect("a well-formed packet");
        packets.push(Captured {
            outbound: block.options.contains(&EnhancedPacketOption::Flags(2)),
            bth: packet.bth(),
            extensions: packet.extensions(),
            payload: packet.payload().to_vec(),
        });
    }
    packets
}

/// The output of tshark for a capture.
pub(crate) fn tshark(file: &Path, args: &[&str]) -> Vec<String> {
    let output = Command::new("tshark").arg("-r").arg(file).args(args).output().expect("tshark is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
