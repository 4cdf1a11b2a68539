//! The scenario of a run: everything that the seed decides before it starts.
//!
//! A scenario is plain data. [`Scenario::generate`] draws one from a seed; tests
//! build their own by hand or change a drawn one.

mod ends;
mod generate;
mod mix;
mod plain;
mod show;
mod sizes;

use core::ops::Range;
use core::time::Duration;

use faults::FaultPlan;
use transport::{Mtu, QpCaps, Time, Tuning};

pub use transport::QpType;
use wire::{Opcode, Psn};

pub use mix::{Kind, Mix};
pub use sizes::{Profile, Sizes};

/// The roughness of a run, which decides what its end must look like.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Temper {
    /// Nothing goes wrong, receives are posted in time, buffers are large: nothing may be
    /// lost and nothing sent twice.
    Calm,
    /// All faults at once, but patience is generous: RC must finish everything.
    Stormy,
    /// Faults beyond patience, crashes, requests without a right: connections may die,
    /// but only as they should.
    Fatal,
}

/// The network and the hosts' receive sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FabricSpec {
    /// The delay of every packet.
    pub latency: Duration,
    /// Up to this much more, order kept.
    pub jitter: Duration,
    /// Speed of a node's uplink, in bytes per microsecond.
    pub link_bytes_per_us: u64,
    /// Receive buffer of a node; what does not fit is lost. Each packet costs its length and
    /// [`RX_OVERHEAD_BYTES`].
    pub rx_buffer_bytes: usize,
    /// Time that a node takes for a packet beside its bytes.
    pub rx_packet_ns: u64,
    /// Bytes that a node takes in per microsecond.
    pub rx_bytes_per_us: u64,
    /// Longest time from a message's arrival to the application's next call.
    pub think: Duration,
}

/// The overhead of a packet in a socket buffer, beside its bytes.
pub const RX_OVERHEAD_BYTES: usize = 512;

/// No packets between two nodes for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// One side.
    pub a: usize,
    /// The other side.
    pub b: usize,
    /// First moment.
    pub from: Time,
    /// First moment after it.
    pub until: Time,
}

/// A node does nothing for a while; its receive buffer fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// The node.
    pub node: usize,
    /// First moment.
    pub from: Time,
    /// First moment after it.
    pub until: Time,
}

/// A node stops for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crash {
    /// The node.
    pub node: usize,
    /// When.
    pub at: Time,
}

/// Some packets of one kind that something happens to, whatever the plan says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strike {
    /// Packets with this opcode.
    pub opcode: Opcode,
    /// Its index, counted from the first on the whole network.
    pub which: Range<u64>,
    /// Their fate.
    pub blow: Blow,
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// It is lost.
    Lose,
    /// It arrives twice.
    Double,
}

/// Everything that goes wrong beside the requests themselves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultSpec {
    /// Packet faults of every direction; each direction gets a seed of its own.
    pub plan: FaultPlan,
    /// Partitions.
    pub partitions: Vec<Partition>,
    /// Pauses.
    pub pauses: Vec<Pause>,
    /// A crash.
    pub crash: Option<Crash>,
    /// Chosen packets.
    pub strikes: Vec<Strike>,
}

/// The choice of send work requests that are signaled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Signal {
    /// The queue pair signals all by itself.
    All,
    /// Every one, by its flag.
    Each,
    /// With this probability; at least one in every full queue, and the last.
    Some(f64),
}

/// When receives are posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvPolicy {
    /// The whole queue at the start, replaced at the application's next call.
    Early,
    /// Nothing before this time, and each replacement only after as long again.
    Late(Duration),
}

/// The end of a queue pair's traffic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ending {
    /// With its last good request.
    Plain,
    /// A WRITE under a key that names nothing.
    WrongKey,
    /// A WRITE that begins inside a region and ends beyond it.
    OutOfBounds,
    /// A WRITE whose address and length wrap around.
    Wrapping,
    /// A WRITE where only READ is granted.
    ReadOnly,
    /// A READ where only WRITE is granted.
    WriteOnly,
    /// A WRITE to a region of another protection domain.
    OtherDomain,
    /// An atomic on an address that is not a multiple of eight.
    Misaligned,
    /// A SEND longer than the receive buffer.
    TooLong,
    /// A SEND from memory under a key that names nothing.
    WrongLocalKey,
    /// A READ into memory that may not be written.
    ReadOnlyResult,
    /// The program moves the queue pair to the error state in the middle of things.
    Abandon,
}

impl Ending {
    /// Those that the responder must refuse.
    pub const REFUSED_BY_PEER: [Ending; 8] = [
        Ending::WrongKey,
        Ending::OutOfBounds,
        Ending::Wrapping,
        Ending::ReadOnly,
        Ending::WriteOnly,
        Ending::OtherDomain,
        Ending::Misaligned,
        Ending::TooLong,
    ];
    /// Those that our own side must refuse.
    pub const REFUSED_HERE: [Ending; 2] = [Ending::WrongLocalKey, Ending::ReadOnlyResult];
}

/// A queue pair and what its application does.
#[derive(Clone, PartialEq, Debug)]
pub struct EndSpec {
    /// Its node.
    pub node: usize,
    /// RC and UC: the other end.
    pub peer: Option<usize>,
    /// Sizes of its queues.
    pub caps: QpCaps,
    /// Its behaviour where the specification leaves a choice.
    pub tuning: Tuning,
    /// Receives come from the node's shared queue.
    pub shared_recv: bool,
    /// First PSN that it sends.
    pub first_psn: Psn,
    /// RC: ACK timeout code.
    pub timeout: u8,
    /// RC: retries.
    pub retry_count: u8,
    /// RC: RNR retries; 7 means without limit.
    pub rnr_retry: u8,
    /// RC: what its RNR NAKs ask for.
    pub min_rnr_timer: u8,
    /// RC: READs and atomics outstanding; the peer's responder takes as many.
    pub rd_atomic: u8,
    /// Send work requests to post.
    pub messages: u32,
    /// And no more after this many bytes.
    pub budget_bytes: u64,
    /// The length of messages.
    pub sizes: Sizes,
    /// Its mix of requests.
    pub mix: Mix,
    /// The signaled ones.
    pub signal: Signal,
    /// Probability of inline data where it fits.
    pub inline: f64,
    /// Probability of a fence.
    pub fence: f64,
    /// Probability that a request asks for what it has no right to, and is lost for it (UC, UD).
    pub rogue: f64,
    /// Chance of stopping the send queue (SQD) once, in the middle.
    pub drains: bool,
    /// When receives are posted.
    pub recv: RecvPolicy,
    /// Its end.
    pub ending: Ending,
    /// When it becomes ready to receive.
    pub rtr_at: Time,
    /// When it becomes ready to send.
    pub rts_at: Time,
    /// UD: members of the multicast group.
    pub in_group: bool,
}

/// Everything about a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// The seed of all randomness during the run.
    pub seed: u64,
    /// The transport service.
    pub service: QpType,
    /// RC only: the connections are extended ones (XRC): of each two ends the second is the target,
    /// which sends nothing and receives into its node's shared queue.
    pub xrc: bool,
    /// Its roughness.
    pub temper: Temper,
    /// Addresses are IPv6.
    pub ipv6: bool,
    /// Path MTU.
    pub mtu: Mtu,
    /// Number of nodes.
    pub nodes: usize,
    /// The network.
    pub fabric: FabricSpec,
    /// The faults.
    pub faults: FaultSpec,
    /// The queue pairs.
    pub ends: Vec<EndSpec>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn generate(seed: u64) -> Scenario {
        generate::generate(seed)
    }

    /// The same with extended connections.
    pub fn extended(mut self) -> Scenario {
        self.xrc = true;
        for end in 0..self.ends.len() {
            let own = self.ends[end].clone();
            self.ends[end] = match self.qp_type(end) {
                QpType::XrcRecv => EndSpec { messages: 0, shared_recv: true, ending: Ending::Plain, ..own },
                _ => EndSpec { shared_recv: false, ..own },
            };
        }
        self
    }

    /// The type of an end's queue pair.
    pub(crate) fn qp_type(&self, end: usize) -> QpType {
        match self.ends[end].peer {
            Some(peer) if self.xrc && end < peer => QpType::XrcSend,
            Some(_) if self.xrc => QpType::XrcRecv,
            _ => self.service,
        }
    }
}

/// The seeds whose scenarios are of this service, from the first on.
pub fn seeds(service: QpType) -> impl Iterator<Item = u64> {
    (0..).filter(move |seed| generate::service(*seed) == service)
}
