//! A capture of every packet that the process sends and receives, as pcapng.
//!
//! Frames are built around the packets as they stand on the wire: with the identification
//! that the kernel gives (or that the ICRC tells), so that whoever reads the file can check
//! the ICRC. Addresses of the Ethernet are made up. Each packet says whether it left or came.
//!
//! Blocks are collected for a batch and then written at once, so that even a process that is
//! killed leaves a file that ends with a whole packet.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use rustix::fs::{FlockOperation, flock};
use udp::{Datagram, TxGroup};
use wire::{Flow, frame};

use crate::counters::{Counter, Counters};
use crate::error::CaptureError;

/// Time to live of packets that leave it to the system.
const DEFAULT_HOP_LIMIT: u8 = 64;
const SNAP_LEN_BYTES: u32 = 1 << 16;

/// The direction of a packet, as the low bits of a pcapng packet's flags have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// The capture of an engine; off at first.
#[derive(Default)]
pub(crate) struct Capture {
    active: AtomicBool,
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    blocks: PcapNgWriter<Vec<u8>>,
    file: File,
    frame: Vec<u8>,
}

/// What a frame needs beyond its payload.
struct Meta {
    flow: Flow,
    identification: u16,
    traffic_class: u8,
    hop_limit: u8,
    direction: Direction,
}

impl Capture {
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Starts a capture, ending the one there is. If another process is writing to that
    /// file, the process id is appended to the name. Returns the name.
    pub(crate) fn start(&self, path: &Path) -> Result<PathBuf, CaptureError> {
        let fail = |source| CaptureError { path: path.display().to_string(), source };
        let (file, path) = create(path).map_err(fail)?;
        let writer = Writer::new(file).map_err(fail)?;
        *self.writer.lock() = Some(writer);
        self.active.store(true, Relaxed);
        Ok(path)
    }

    /// Ends the capture, if there is one.
    pub(crate) fn stop(&self) {
        self.active.store(false, Relaxed);
        self.writer.lock().take();
    }

    /// Records groups that are about to leave.
    pub(crate) fn sent(&self, groups: &[TxGroup<'_>], counters: &Counters) {
        let packets = groups.iter().flat_map(|group| {
            let segments = group.bytes.chunks(usize::from(group.segment_bytes).max(1));
            segments.enumerate().map(|(index, bytes)| (Meta::sent(group, index as u16), bytes))
        });
        self.record(packets, counters);
    }

    /// Records the packets of a datagram, each with its identification.
    pub(crate) fn received<'a>(
        &self,
        datagram: &Datagram<'_>,
        packets: impl Iterator<Item = (u16, &'a [u8])>,
        counters: &Counters,
    ) {
        let packets = packets.map(|(identification, bytes)| (Meta::received(datagram, identification), bytes));
        self.record(packets, counters);
    }

    fn record<'a>(&self, packets: impl Iterator<Item = (Meta, &'a [u8])>, counters: &Counters) {
        let mut writer = self.writer.lock();
        let Some(writer) = writer.as_mut() else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (meta, bytes) in packets {
            let counter = if writer.add(&meta, bytes, time) { Counter::Captured } else { Counter::CaptureErrors };
            counters.add(counter, 1);
        }
        if writer.write_out().is_err() {
            counters.add(Counter::CaptureErrors, 1);
        }
    }
}

impl Meta {
    fn sent(group: &TxGroup<'_>, identification: u16) -> Meta {
        Meta {
            flow: group.flow,
            identification,
            traffic_class: group.traffic_class,
            hop_limit: if group.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { group.hop_limit },
            direction: Direction::Outbound,
        }
    }

    fn received(datagram: &Datagram<'_>, identification: u16) -> Meta {
        Meta {
            flow: datagram.flow(),
            identification,
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            direction: Direction::Inbound,
        }
    }
}

impl Writer {
    fn new(file: File) -> io::Result<Writer> {
        let mut blocks = PcapNgWriter::new(Vec::new()).map_err(io::Error::other)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: SNAP_LEN_BYTES,
            options: vec![
                InterfaceDescriptionOption::IfName("longarm".into()),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        };
        blocks.write_pcapng_block(interface).map_err(io::Error::other)?;
        let mut writer = Writer { blocks, file, frame: Vec::new() };
        writer.write_out()?;
        Ok(writer)
    }

    /// Adds a packet to the batch; false if no frame can hold it.
    fn add(&mut self, meta: &Meta, bytes: &[u8], timestamp: Duration) -> bool {
        self.frame.clear();
        let Meta { flow, identification, traffic_class, hop_limit, direction } = meta;
        if frame::encode(flow, *identification, *traffic_class, *hop_limit, bytes, &mut self.frame).is_err() {
            return false;
        }
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp,
            original_len: self.frame.len() as u32,
            data: self.frame.as_slice().into(),
            options: vec![EnhancedPacketOption::Flags(*direction as u32)],
        };
        self.blocks.write_pcapng_block(block).is_ok()
    }

    /// Writes the batch to the file.
    fn write_out(&mut self) -> io::Result<()> {
        let batch = self.blocks.get_mut();
        let result = self.file.write_all(batch);
        batch.clear();
        result
    }
}

/// Creates the file, and locks it for as long as it is open. What is there is replaced,
/// unless another process is writing it.
fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let open = |path: &Path| File::options().write(true).create(true).truncate(false).open(path);
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
