//! The space of measurements: contender, operation, quantity and parameters.

use crate::baseline::SegmentWork;
use crate::report::{bytes_per_second, count_per_second, nanoseconds_precise, size};

/// The path of Longarm's messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum MessagePath {
    /// The shm path, which two processes on one host use by default.
    Host,
    /// RoCEv2 over UDP on the loop-back interface.
    Wire,
    /// The wire path with one packet in a hundred lost on each side.
    Lossy,
}

/// The driver of programs in the guest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum VmDriver {
    /// Longarm in the guest.
    Longarm(MessagePath),
    /// The kernel's Soft-RoCE.
    Rxe,
    /// The kernel's software iWARP.
    Siw,
}

/// The measured implementation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Contender {
    /// Longarm's Rust API: `longarm perf`.
    Api(MessagePath),
    /// Unmodified perftest programs on Longarm.
    Perftest(MessagePath),
    /// Unmodified perftest programs in the guest of a virtual machine.
    Guest(VmDriver),
    /// UCX with `UCX_TLS=posix,cma,self`.
    UcxShm,
    /// UCX with `UCX_TLS=tcp,self`.
    UcxTcp,
    /// One stream of iperf3.
    Iperf3,
    /// Datagram sockets, both sides polling.
    Udp,
    /// Datagram sockets with segmentation and coalescing, both sides polling.
    Segments(SegmentWork),
    /// Stream sockets, both sides polling.
    Tcp,
    /// Two threads that share a cache line.
    Memory,
}

/// An operation, or its closest equivalent without verbs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TestVerb {
    Send,
    Write,
    Read,
    FetchAdd,
}

/// The measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Quantity {
    /// Nanoseconds: half the round trip, or post to completion of READ and atomics.
    Latency,
    /// Payload bytes per second.
    Bandwidth,
    /// Messages per second.
    Rate,
}

/// The definition of one figure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Measure {
    pub(super) quantity: Quantity,
    pub(super) verb: TestVerb,
    pub(super) size_bytes: u32,
    /// Queue pairs of each thread.
    pub(super) qps: u32,
    /// Threads on each side.
    pub(super) threads: u32,
    /// The target's process is stopped during the measurement.
    pub(super) stopped: bool,
    pub(super) contender: Contender,
}

impl Measure {
    pub(super) fn new(contender: Contender, quantity: Quantity, verb: TestVerb, size_bytes: u32) -> Measure {
        Measure { quantity, verb, size_bytes, qps: 1, threads: 1, stopped: false, contender }
    }

    /// Outstanding work requests: enough to fill the path, but fewer for large messages and for many queue pairs.
    pub(super) fn depth(&self) -> u32 {
        match self.size_bytes {
            _ if self.qps >= 10 => 16,
            0..=8192 => 128,
            8193..=262_144 => 32,
            _ => 8,
        }
    }

    /// The text for operation and quantity, without the contender.
    pub(super) fn what(&self) -> String {
        let verb = match (self.quantity, self.verb) {
            (_, TestVerb::Send) => "SEND",
            (_, TestVerb::Write) => "WRITE",
            (_, TestVerb::Read) => "READ",
            (_, TestVerb::FetchAdd) => "fetch-and-add",
        };
        let mut what = format!("{verb} {}", size(u64::from(self.size_bytes)));
        what += match self.quantity {
            Quantity::Latency if self.verb.is_one_sided() => ", post to completion",
            Quantity::Latency => ", one way",
            Quantity::Bandwidth => "",
            Quantity::Rate => ", messages",
        };
        if self.qps > 1 {
            what += &format!(", {} QPs", self.qps);
        }
        if self.threads > 1 {
            what += &format!(", {} threads", self.threads);
        }
        if self.stopped {
            what += ", target stopped";
        }
        what
    }

    /// The contender's text in the table.
    pub(super) fn contender_name(&self) -> String {
        match (self.contender, self.quantity) {
            (Contender::Perftest(_) | Contender::Guest(_), _) => {
                format!("{}, `{}`", self.contender.name(), self.perftest_program())
            }
            (Contender::UcxShm | Contender::UcxTcp, _) => {
                format!("{}, `{}`", self.contender.name(), self.ucx_test())
            }
            (Contender::Udp, Quantity::Latency) => "UDP ping-pong".into(),
            (Contender::Udp, _) => "UDP, one `sendto` each".into(),
            (Contender::Tcp, _) => "TCP ping-pong".into(),
            (Contender::Memory, Quantity::Latency) => "two cores, a cache line".into(),
            (Contender::Memory, _) => "`memcpy` in cache".into(),
            (contender, _) => contender.name().into(),
        }
    }

    /// The program of perftest.
    pub(super) fn perftest_program(&self) -> &'static str {
        match (self.quantity, self.verb) {
            (Quantity::Latency, TestVerb::Send) => "ib_send_lat",
            (Quantity::Latency, TestVerb::Write) => "ib_write_lat",
            (Quantity::Latency, TestVerb::Read) => "ib_read_lat",
            (Quantity::Latency, TestVerb::FetchAdd) => "ib_atomic_lat",
            (_, TestVerb::Send) => "ib_send_bw",
            (_, TestVerb::Write) => "ib_write_bw",
            (_, TestVerb::Read) => "ib_read_bw",
            (_, TestVerb::FetchAdd) => "ib_atomic_bw",
        }
    }

    /// The test of ucx_perftest.
    pub(super) fn ucx_test(&self) -> &'static str {
        match (self.quantity, self.verb) {
            (Quantity::Latency, TestVerb::Send) => "tag_lat",
            (Quantity::Latency, TestVerb::Write) => "ucp_put_lat",
            (_, TestVerb::Send) => "tag_bw",
            (_, TestVerb::Write) => "ucp_put_bw",
            (_, TestVerb::Read) => "ucp_get",
            (_, TestVerb::FetchAdd) => "ucp_fadd",
        }
    }

    /// Whether this program can measure it; a guest's figures come from files.
    pub(super) fn is_ours_to_run(&self) -> bool {
        !matches!(self.contender, Contender::Guest(_))
    }

    /// Formats a figure with its unit.
    pub(super) fn show(&self, value: f64) -> String {
        match self.quantity {
            Quantity::Latency => nanoseconds_precise(value),
            Quantity::Bandwidth => bytes_per_second(value),
            Quantity::Rate => count_per_second(value),
        }
    }
}

impl TestVerb {
    /// Whether the operation completes without the target's program.
    pub(super) fn is_one_sided(self) -> bool {
        matches!(self, TestVerb::Read | TestVerb::FetchAdd)
    }
}

impl Contender {
    /// The contender's name in tables and plots.
    pub(super) fn name(self) -> &'static str {
        match self {
            Contender::Api(MessagePath::Host) => "Longarm, same host",
            Contender::Api(MessagePath::Wire) => "Longarm, wire",
            Contender::Api(MessagePath::Lossy) => "Longarm, wire, 1 % lost",
            Contender::Perftest(MessagePath::Host) => "perftest, same host",
            Contender::Perftest(MessagePath::Wire) => "perftest, wire",
            Contender::Perftest(MessagePath::Lossy) => "perftest, wire, 1 % lost",
            Contender::Guest(VmDriver::Longarm(MessagePath::Host)) => "Longarm in a VM, same host",
            Contender::Guest(VmDriver::Longarm(_)) => "Longarm in a VM, wire",
            Contender::Guest(VmDriver::Rxe) => "rxe in the VM",
            Contender::Guest(VmDriver::Siw) => "siw in the VM",
            Contender::UcxShm => "UCX shared memory",
            Contender::UcxTcp => "UCX TCP",
            Contender::Iperf3 => "iperf3, one stream",
            Contender::Udp => "UDP sockets",
            Contender::Segments(SegmentWork::Bare) => "UDP_SEGMENT and UDP_GRO, bare",
            Contender::Segments(SegmentWork::Copied) => "UDP_SEGMENT and UDP_GRO, copied",
            Contender::Segments(SegmentWork::Checked) => "UDP_SEGMENT and UDP_GRO, copied, CRC",
            Contender::Tcp => "TCP sockets",
            Contender::Memory => "memory",
        }
    }

    /// Whether it is Longarm on any path.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Contender::Api(_) | Contender::Perftest(_) | Contender::Guest(VmDriver::Longarm(_)))
    }
}
