//! A capture of every packet that the process sends and receives, as pcapng.
//!
//! It writes frames around the packets as they are on the wire, with the identification that the kernel gives or that the
//! ICRC tells. So a reader of the file can check the ICRC. The Ethernet addresses are made up. Each packet has its
//! direction.
//!
//! The file has messages through shared memory as well, at an interface of their own: as the packets that
//! the wire would have carried ([`UnsentPackets`]).
//!
//! The blocks of a batch are written with one call, so that even a killed process leaves a file that ends with a whole
//! packet.

mod unsent;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use udp::{Datagram, TxGroup};
use wire::Flow;

use crate::error::CaptureError;
use crate::objects::counters::{EngineCounter, EngineCounters};
pub(crate) use unsent::{RecordedFlow, UnsentPackets};
use writer::Writer;

/// The time to live of packets that leave the choice to the system.
const DEFAULT_HOP_LIMIT: u8 = 64;

/// The direction of a packet, as the low bits of a pcapng packet's flags have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CaptureDirection {
    Inbound = 1,
    Outbound = 2,
}

/// The interfaces of the file, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CaptureInterface {
    Wire = 0,
    /// For messages that no wire has carried.
    SharedMemory = 1,
}

/// The capture of an engine; off at first.
#[derive(Default)]
pub(crate) struct PacketCapture {
    active: AtomicBool,
    /// The number of captures so far.
    number: AtomicU32,
    writer: Mutex<Option<Writer>>,
}

/// The values that a frame needs beyond its payload.
#[derive(Clone, Copy)]
struct Meta {
    interface: CaptureInterface,
    flow: Flow,
    identification: u16,
    traffic_class: u8,
    hop_limit: u8,
    direction: CaptureDirection,
    comment: Option<&'static str>,
}

impl PacketCapture {
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Starts a capture, and ends the previous one. If another process writes to that file, the process id is appended to
    /// the name. Returns the name.
    pub(crate) fn start(&self, path: &Path) -> Result<PathBuf, CaptureError> {
        let fail = |source| CaptureError { path: path.display().to_string(), source };
        let (file, path) = writer::create(path).map_err(fail)?;
        let writer = Writer::new(file).map_err(fail)?;
        *self.writer.lock() = Some(writer);
        self.number.fetch_add(1, Relaxed);
        self.active.store(true, Relaxed);
        Ok(path)
    }

    /// The number of the present capture: another number means another file.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Ends the capture, if there is one.
    pub(crate) fn stop(&self) {
        self.active.store(false, Relaxed);
        self.writer.lock().take();
    }

    /// Records groups that are about to leave.
    pub(crate) fn sent(&self, groups: &[TxGroup<'_>], counters: &EngineCounters) {
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
        counters: &EngineCounters,
    ) {
        let packets = packets.map(|(identification, bytes)| (Meta::received(datagram, identification), bytes));
        self.record(packets, counters);
    }

    fn record<'a>(&self, packets: impl Iterator<Item = (Meta, &'a [u8])>, counters: &EngineCounters) {
        let mut writer = self.writer.lock();
        let Some(writer) = writer.as_mut() else { return };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (meta, bytes) in packets {
            let counter =
                if writer.add(&meta, bytes, time) { EngineCounter::Captured } else { EngineCounter::CaptureErrors };
            counters.add(counter, 1);
        }
        if writer.write_out().is_err() {
            counters.add(EngineCounter::CaptureErrors, 1);
        }
    }
}

impl Meta {
    fn sent(group: &TxGroup<'_>, identification: u16) -> Meta {
        Meta {
            interface: CaptureInterface::Wire,
            flow: group.flow,
            identification,
            traffic_class: group.traffic_class,
            hop_limit: hop_limit(group.hop_limit),
            direction: CaptureDirection::Outbound,
            comment: None,
        }
    }

    fn received(datagram: &Datagram<'_>, identification: u16) -> Meta {
        Meta {
            interface: CaptureInterface::Wire,
            flow: datagram.flow(),
            identification,
            traffic_class: datagram.traffic_class,
            hop_limit: datagram.hop_limit,
            direction: CaptureDirection::Inbound,
            comment: None,
        }
    }
}

fn hop_limit(wanted: u8) -> u8 {
    if wanted == 0 { DEFAULT_HOP_LIMIT } else { wanted }
}
