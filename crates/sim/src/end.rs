//! One end: a queue pair, its memory, its application's plans, and the accounts of it.

use std::ops::RangeInclusive;

use faults::Rng;
use memory::MwType;
use transport::{Access, AddressVector, AttrMask, Qp, QpAttr, QpEvent, QpInit, QpState, QpType, RecvQueue, Time};
use wire::{QKey, Qpn, RKey};

use crate::area::{Area, AreaPiece, Slots};
use crate::check::recvs::RecvLedger;
use crate::check::remote::Remote;
use crate::check::sends::SendLedger;
use crate::check::wire::Observer;
use crate::check::writes::Writes;
use crate::message::SentMessage;
use crate::node::{EVERYTHING, Mailbox, Node, NodeSrq};
use crate::rng::Stream;
use crate::scenario::{EndSpec, Ending, Scenario, Signal};

/// The queue key of all queue pairs.
pub(crate) const QKEY: QKey = QKey(0x1234_5678);

/// Bytes of the GRH in a UD receive buffer.
pub(crate) const GRH_BYTES: usize = 40;

/// The state of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WindowPhase {
    /// Bound to nothing.
    Idle,
    /// A work request that changes it is outstanding: its owner's, or a peer's that invalidates it.
    Changing,
    /// The peer may use it.
    Live,
}

/// A memory window of an end, for its peer.
#[derive(Clone, Debug)]
pub(crate) struct EndWindow {
    pub(crate) kind: MwType,
    pub(crate) rkey: RKey,
    pub(crate) phase: WindowPhase,
    /// The part of the exposed area that it opens.
    pub(crate) piece: AreaPiece,
    pub(crate) access: Access,
    /// Outstanding requests of the peer through it.
    pub(crate) uses: u32,
}

/// The next action of an application.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) rng: Rng,
    /// Send work requests yet to post.
    pub(crate) left: u32,
    /// Bytes that they may still have.
    pub(crate) budget_bytes: u64,
    /// Stop the send queue when this many are left.
    pub(crate) drain_at: Option<u32>,
    /// In SQD, waiting for the event.
    pub(crate) draining: bool,
    /// No receives are posted before.
    pub(crate) recv_at: Time,
    /// The last request has been posted or done.
    pub(crate) ended: bool,
    /// Values last seen in the shared words.
    pub(crate) seen: Vec<u64>,
    /// For values that no other request stores.
    pub(crate) swaps: u64,
    /// The last ticket.
    pub(crate) ticket: u64,
}

/// A queue pair and everything around it.
pub(crate) struct End {
    pub(crate) spec: EndSpec,
    pub(crate) qp: Qp,
    /// Messages are sent from here; nothing may change it.
    pub(crate) source: Area,
    /// Receives and results land here.
    pub(crate) landing: Area,
    /// The peer works on this.
    pub(crate) exposed: Area,
    pub(crate) recv_slots: Slots,
    pub(crate) result_slots: Slots,
    pub(crate) windows: Vec<EndWindow>,
    pub(crate) mailbox: Mailbox,
    /// The number of times in a row that it had no packet although it wanted to send.
    pub(crate) refusals: u32,
    pub(crate) timer: Option<Time>,
    pub(crate) wake: Option<Time>,
    pub(crate) app: App,
    pub(crate) sends: SendLedger,
    pub(crate) recvs: RecvLedger,
    /// Messages for the peer's receive queue, in order.
    pub(crate) log: Vec<SentMessage>,
    /// Send work requests posted.
    pub(crate) posted: u64,
    /// Packets that these take.
    pub(crate) packets: u64,
    /// RC: what becomes of the peer's exposed area.
    pub(crate) remote: Remote,
    /// UC: likewise.
    pub(crate) writes: Writes,
    /// Messages of the peer that have been received or lost.
    pub(crate) heard: usize,
    /// Datagrams received.
    pub(crate) received: u64,
    /// The observer of its packets.
    pub(crate) observer: Observer,
    /// Events that came.
    pub(crate) events: Vec<QpEvent>,
}

/// Bytes of each receive slot: every message fits.
pub(crate) fn slot_bytes(scenario: &Scenario) -> usize {
    let header = if scenario.service == QpType::Ud { GRH_BYTES } else { 0 };
    let longest = scenario.ends.iter().map(|spec| spec.sizes.max_send_bytes).max();
    longest.unwrap_or(0) as usize + header
}

impl End {
    pub(crate) fn new(scenario: &Scenario, number: usize, node: &mut Node) -> End {
        let spec = scenario.ends[number].clone();
        let mut rng = Stream::Memory(number).rng(scenario.seed);
        let slot = slot_bytes(scenario);
        let result = spec.sizes.max_rdma_bytes.max(8) as usize;
        let recv_room = if spec.shared_recv { 0 } else { Slots::room(spec.caps.max_recv_wr as usize, slot) };
        let result_room = Slots::room(spec.caps.max_send_wr as usize, result);
        let pd = node.pd;
        let mut area = |name, access, len| Area::new(name, &node.registry, pd, access, len, &mut rng);
        let source = area("source", Access::empty(), slot.max(result) + 4096);
        let landing = area("landing", Access::LOCAL_WRITE, recv_room + result_room);
        let mut exposed = area("exposed", EVERYTHING, exposed_len(scenario, &spec));
        exposed.clear_last_word();
        End {
            qp: Qp::new(&init(scenario, number, &spec, node)),
            recv_slots: Slots::new(0, if spec.shared_recv { 0 } else { spec.caps.max_recv_wr as usize }, slot),
            result_slots: Slots::new(recv_room, spec.caps.max_send_wr as usize, result),
            windows: windows(node),
            mailbox: Mailbox::default(),
            refusals: 0,
            timer: None,
            wake: None,
            app: App::new(scenario, number, &spec),
            sends: SendLedger::default(),
            recvs: RecvLedger::default(),
            log: Vec::new(),
            posted: 0,
            packets: 0,
            remote: Remote::default(),
            writes: Writes::default(),
            heard: 0,
            received: 0,
            observer: Observer::default(),
            events: Vec::new(),
            source,
            landing,
            exposed,
            spec,
        }
    }

    /// Whether its queue pair can still do something.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.qp.state(), QpState::Error | QpState::Reset)
    }
}

/// One of each type.
fn windows(node: &mut Node) -> Vec<EndWindow> {
    [MwType::One, MwType::Two]
        .into_iter()
        .map(|kind| EndWindow {
            kind,
            rkey: node.registry.alloc_mw(node.pd, kind).expect("room for a window").rkey,
            phase: WindowPhase::Idle,
            piece: AreaPiece { offset: 0, len: 0 },
            access: Access::empty(),
            uses: 0,
        })
        .collect()
}

/// The exposed memory that the peer needs: RC writes anywhere, UC has a place for each WRITE.
fn exposed_len(scenario: &Scenario, spec: &EndSpec) -> usize {
    let Some(peer) = spec.peer.map(|peer| &scenario.ends[peer]) else { return 0 };
    let longest = peer.sizes.max_rdma_bytes as usize;
    match scenario.service {
        QpType::Uc => {
            let most = u64::from(peer.messages) * longest as u64;
            peer.budget_bytes.min(most) as usize + longest + peer.messages as usize * 16
        }
        _ => longest + longest / 4 + 4096,
    }
}

fn init(scenario: &Scenario, number: usize, spec: &EndSpec, node: &Node) -> QpInit {
    QpInit {
        qpn: qpn(spec.node, number),
        qp_type: scenario.qp_type(number),
        pd: node.pd,
        caps: spec.caps,
        signal_all: spec.signal == Signal::All,
        shared_recv: spec.shared_recv.then_some(node.pd),
        tuning: spec.tuning,
        secret: node.pd.0.into(),
    }
}

/// The number of an end's queue pair.
pub(crate) fn qpn(node: usize, number: usize) -> Qpn {
    Qpn::from_parts(node as u8 + 1, 0x100 + number as u16)
}

impl App {
    fn new(scenario: &Scenario, number: usize, spec: &EndSpec) -> App {
        let mut rng = Stream::Application(number).rng(scenario.seed);
        let drain_at = (spec.drains && spec.messages > 1).then(|| rng.below(u64::from(spec.messages)) as u32);
        App {
            rng,
            left: spec.messages,
            budget_bytes: spec.budget_bytes,
            drain_at,
            draining: false,
            recv_at: Time(0),
            ended: spec.ending == Ending::Plain,
            seen: Vec::new(),
            swaps: 0,
            ticket: 0,
        }
    }
}

/// A shared receive queue for all ends of a node that want one.
pub(crate) fn shared_queue(scenario: &Scenario, number: usize, node: &Node) -> Option<NodeSrq> {
    let users: Vec<&EndSpec> = scenario.ends.iter().filter(|spec| spec.node == number && spec.shared_recv).collect();
    let first = users.first()?;
    let count: u32 = users.iter().map(|spec| spec.caps.max_recv_wr).sum();
    let slot = slot_bytes(scenario);
    // The queue holds as much memory as one of its users' would.
    let most = (first.caps.max_recv_wr as usize * slot).max(slot) / slot.max(1);
    let count =
        if scenario.temper == crate::scenario::Temper::Calm { count as usize } else { most.min(count as usize) };
    let mut rng = Stream::Memory(2000 + number).rng(scenario.seed);
    let area =
        Area::new("shared receives", &node.registry, node.pd, Access::LOCAL_WRITE, Slots::room(count, slot), &mut rng);
    Some(NodeSrq {
        queue: RecvQueue::new(count as u32, first.caps.max_recv_sge),
        area,
        slots: Slots::new(0, count, slot),
        ledger: RecvLedger::default(),
    })
}

/// Attributes and mask of a step, for `modify`.
pub(crate) type Step = (QpAttr, AttrMask);

/// Reset to Init.
pub(crate) fn to_init(service: QpType) -> Step {
    let attr = QpAttr { state: QpState::Init, access: EVERYTHING, qkey: QKEY, ..QpAttr::default() };
    let attr = QpAttr { access: attr.access - Access::MW_BIND, ..attr };
    let own = if service == QpType::Ud { AttrMask::QKEY } else { AttrMask::ACCESS_FLAGS };
    (attr, AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | own)
}

/// Init to RTR. `peer` is the other end and the path to it.
pub(crate) fn to_rtr(
    scenario: &Scenario,
    service: QpType,
    spec: &EndSpec,
    peer: Option<(&EndSpec, Qpn, AddressVector)>,
) -> Step {
    let attr = QpAttr { state: QpState::Rtr, ..QpAttr::default() };
    let Some((peer, dest_qpn, address)) = peer else { return (attr, AttrMask::STATE) };
    let attr = QpAttr {
        address,
        dest_qpn,
        path_mtu: scenario.mtu,
        rq_psn: peer.first_psn,
        max_dest_rd_atomic: spec.rd_atomic,
        min_rnr_timer: spec.min_rnr_timer,
        ..attr
    };
    let connected = AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
    let own = match service {
        QpType::Rc | QpType::XrcRecv => connected | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER,
        _ => connected,
    };
    (attr, AttrMask::STATE | own)
}

/// RTR to RTS.
pub(crate) fn to_rts(service: QpType, spec: &EndSpec) -> Step {
    let attr = QpAttr {
        state: QpState::Rts,
        sq_psn: spec.first_psn,
        timeout: spec.timeout,
        retry_count: spec.retry_count,
        rnr_retry: spec.rnr_retry,
        max_rd_atomic: spec.rd_atomic,
        ..QpAttr::default()
    };
    let own = match service {
        QpType::Rc | QpType::XrcSend => {
            AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC
        }
        QpType::XrcRecv => AttrMask::TIMEOUT,
        _ => AttrMask::empty(),
    };
    (attr, AttrMask::STATE | AttrMask::SQ_PSN | own)
}

/// To a state that needs nothing else.
pub(crate) fn just(state: QpState) -> Step {
    (QpAttr { state, ..QpAttr::default() }, AttrMask::STATE)
}

/// Microseconds between two calls of an application that is busy.
pub(crate) const BUSY_NS: RangeInclusive<u64> = 50..=1500;
