//! Reads captures without any code of the project: the ICRC here is an independent,
//! bit-by-bit implementation of Annex A17.3.3.

use std::fs::File;
use std::path::Path;

use pcap_file::pcapng::{Block, PcapNgReader};

/// The packets of a pcapng file.
pub(crate) fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapNgReader::new(File::open(path).expect("the capture exists")).expect("a pcapng file");
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a whole block") {
            frames.push(packet.data.to_vec());
        }
    }
    frames
}

/// Whether an Ethernet frame is a RoCEv2 packet with the right ICRC.
pub(crate) fn icrc_is_right(frame: &[u8]) -> bool {
    let (ip_len, v4) = match frame[12..14] {
        [0x08, 0x00] => (20, true),
        [0x86, 0xdd] => (40, false),
        _ => return false,
    };
    let mut packet = frame[14..].to_vec();
    let length = match v4 {
        true => usize::from(u16::from_be_bytes([packet[2], packet[3]])),
        false => usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40,
    };
    packet.truncate(length);
    let (udp, bth) = (ip_len, ip_len + 8);
    if u16::from_be_bytes([packet[udp + 2], packet[udp + 3]]) != 4791 {
        return false;
    }
    let icrc = packet.split_off(length - 4);
    mask(&mut packet, v4, udp, bth);
    crc32(&[vec![0xff; 8], packet].concat()).to_le_bytes() == icrc[..]
}

/// Sets the fields that routers change to ones.
fn mask(packet: &mut [u8], v4: bool, udp: usize, bth: usize) {
    if v4 {
        packet[1] = 0xff;
        packet[8] = 0xff;
        packet[10..12].fill(0xff);
    } else {
        packet[0] |= 0x0f;
        packet[1..4].fill(0xff);
        packet[7] = 0xff;
    }
    packet[udp + 6..udp + 8].fill(0xff);
    packet[bth + 4] = 0xff;
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320)))
}
