//! The file of a capture.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use rustix::fs::{FlockOperation, flock};
use wire::frame;

use super::Meta;

const SNAP_LEN_BYTES: u32 = 1 << 16;

/// The name and description of each [`CaptureInterface`](super::CaptureInterface), in that order.
const INTERFACES: [(&str, &str); 2] =
    [("longarm", "packets of the process"), ("longarm-near", "same host, shared memory (no packets)")];

pub(super) struct Writer {
    blocks: PcapNgWriter<Vec<u8>>,
    file: File,
    frame: Vec<u8>,
}

impl Writer {
    pub(super) fn new(file: File) -> io::Result<Writer> {
        let mut blocks = PcapNgWriter::new(Vec::new()).map_err(io::Error::other)?;
        for (name, description) in INTERFACES {
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: SNAP_LEN_BYTES,
                options: vec![
                    InterfaceDescriptionOption::IfName(name.into()),
                    InterfaceDescriptionOption::IfDescription(description.into()),
                    InterfaceDescriptionOption::IfTsResol(9),
                ],
            };
            blocks.write_pcapng_block(interface).map_err(io::Error::other)?;
        }
        let mut writer = Writer { blocks, file, frame: Vec::new() };
        writer.write_out()?;
        Ok(writer)
    }

    /// Adds a packet to the batch; false if no frame can hold it.
    pub(super) fn add(&mut self, meta: &Meta, bytes: &[u8], timestamp: Duration) -> bool {
        self.frame.clear();
        let Meta { interface, flow, identification, traffic_class, hop_limit, direction, comment } = meta;
        if frame::encode(flow, *identification, *traffic_class, *hop_limit, bytes, &mut self.frame).is_err() {
            return false;
        }
        let mut options = vec![EnhancedPacketOption::Flags(*direction as u32)];
        options.extend(comment.map(|comment| EnhancedPacketOption::Comment(comment.into())));
        let block = EnhancedPacketBlock {
            interface_id: *interface as u32,
            timestamp,
            original_len: self.frame.len() as u32,
            data: self.frame.as_slice().into(),
            options,
        };
        self.blocks.write_pcapng_block(block).is_ok()
    }

    /// Writes the batch to the file.
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        let batch = self.blocks.get_mut();
        let result = self.file.write_all(batch);
        batch.clear();
        result
    }
}

/// Creates the file, and locks it for as long as it is open. It replaces the content, unless another process writes the
/// file.
pub(super) fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let open = |path: &Path| {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        io::Result::Ok(File::from(guest::high(file.into())))
    };
    let mut path = path.to_owned();
    let mut file = open(&path)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut name = path.into_os_string();
        name.push(format!(".{}", std::process::id()));
        path = name.into();
        file = open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    }
    file.set_len(0)?;
    Ok((file, path))
}
