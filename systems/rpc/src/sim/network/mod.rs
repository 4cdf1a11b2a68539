//! The virtual network: connections with their queues, what is on its way, and what arrives.

mod arrive;
mod memory;
mod post;
mod reads;
mod show;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::rc::Rc;

use fastrand::Rng;
use longarm::RemoteKey;

use crate::link::PeerArea as _;
use crate::sim::agenda::Agenda;
use crate::sim::area::SimArea;
use crate::sim::chance;
use crate::sim::trace::SimTrace;
use memory::Exposure;
use reads::Sampling;

/// One end of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId {
    pub(crate) connection: usize,
    pub(crate) is_server: bool,
}

impl EndId {
    pub(crate) fn peer(self) -> EndId {
        EndId { is_server: !self.is_server, ..self }
    }
}

/// A request of a queue pair.
#[derive(Clone, Debug)]
pub(crate) enum SimOp {
    Write { at: u64, bytes: Vec<u8>, imm: Option<u32> },
    Send(Vec<u8>),
    Read { key: RemoteKey, tag: u64 },
}

/// An event that an end hears of when it polls its completion queues.
#[derive(Clone, Debug)]
pub(crate) enum SimNotice {
    Message(Vec<u8>),
    Imm(u32),
    ReadDone(u64, Option<Vec<u8>>),
    Datagram(Vec<u8>),
    Down,
}

/// The vices of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkFaults {
    /// Latency of a request, at least and at most.
    pub(crate) latency_ns: (u64, u64),
    /// Requests under way, at most.
    pub(crate) depth: usize,
    /// Chance that the device refuses a request.
    pub(crate) busy: f64,
    /// Chance that a datagram, or a WRITE of an unreliable connection, is lost.
    pub(crate) loss: f64,
    /// Chance that a datagram arrives twice.
    pub(crate) double: f64,
    /// WRITEs may get lost whole, or from some byte on.
    pub(crate) unreliable_writes: bool,
}

#[cfg(test)]
impl LinkFaults {
    /// A connection without vices.
    pub(crate) fn none() -> LinkFaults {
        LinkFaults {
            latency_ns: (1_000, 1_000),
            depth: 1 << 20,
            busy: 0.0,
            loss: 0.0,
            double: 0.0,
            unreliable_writes: false,
        }
    }
}

/// Memory that an end gives to a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AreaSizes {
    /// The peer writes it.
    pub(crate) area_bytes: u64,
    /// The peer reads it; zero means none.
    pub(crate) read_area_bytes: u64,
}

struct NetEnd {
    area: Rc<SimArea>,
    read_area: Option<Rc<SimArea>>,
    exposures: Vec<Exposure>,
    inbox: VecDeque<SimNotice>,
    /// The last request of the connection, or of the unreliable one beside it, has landed at that time.
    busy_until: [u64; 2],
    /// The last READ has ended at that time.
    reads_until: u64,
    under_way: usize,
    /// Nobody lives here any more.
    is_dead: bool,
    /// The device refused a request since the owner asked the last time.
    was_refused: bool,
}

struct Connection {
    faults: LinkFaults,
    is_up: bool,
    /// The next connection of the same processes: it gets the datagrams that are late.
    heir: Option<usize>,
    /// One of the ends is hostile: the rules for honest peers do not hold.
    is_hostile: bool,
    ends: [NetEnd; 2],
}

enum NetEvent {
    /// A request arrives; it ends the given time later.
    Arrive {
        from: EndId,
        op: SimOp,
        until: u64,
        is_lost: bool,
    },
    /// The WRITE that is landing has landed.
    Landed {
        from: EndId,
        imm: Option<u32>,
    },
    Sample {
        reader: EndId,
        sampling: Box<Sampling>,
    },
    Notice {
        to: EndId,
        notice: SimNotice,
    },
}

/// All connections, and everything that is on its way on them.
pub(crate) struct SimNetwork {
    now_ns: u64,
    rng: Rng,
    agenda: Agenda<NetEvent>,
    connections: Vec<Connection>,
    /// Ends that have something to look at.
    wakes: Vec<EndId>,
    next_addr: u64,
    pub(crate) trace: SimTrace,
    /// The first rule that somebody broke.
    pub(crate) violation: Option<String>,
}

impl SimNetwork {
    pub(crate) fn new(seed: u64, is_verbose: bool) -> SimNetwork {
        SimNetwork {
            now_ns: 0,
            rng: Rng::with_seed(seed),
            agenda: Agenda::new(),
            connections: Vec::new(),
            wakes: Vec::new(),
            next_addr: 0x1000,
            trace: SimTrace::new(is_verbose),
            violation: None,
        }
    }

    /// A new connection. The first sizes are the client's.
    pub(crate) fn connect(&mut self, sizes: [AreaSizes; 2], faults: LinkFaults, is_hostile: bool) -> usize {
        let now = self.now_ns;
        let ends = sizes.map(|sizes| NetEnd {
            area: Rc::new(SimArea::new(sizes.area_bytes, self.rng.fork())),
            read_area: (sizes.read_area_bytes > 0)
                .then(|| Rc::new(SimArea::new(sizes.read_area_bytes, self.rng.fork()))),
            exposures: Vec::new(),
            inbox: VecDeque::new(),
            busy_until: [now; 2],
            reads_until: now,
            under_way: 0,
            is_dead: false,
            was_refused: false,
        });
        self.connections.push(Connection { faults, is_up: true, heir: None, is_hostile, ends });
        self.connections.len() - 1
    }

    /// Datagrams of an old connection go to a new one from now on.
    pub(crate) fn inherit(&mut self, old: usize, new: usize) {
        self.connections[old].heir = Some(new);
    }

    pub(crate) fn areas(&self, end: EndId) -> (Rc<SimArea>, Option<Rc<SimArea>>) {
        (Rc::clone(&self.end(end).area), self.end(end).read_area.clone())
    }

    /// Length of the memory that the peer of an end writes.
    pub(crate) fn area_bytes(&self, end: EndId) -> u64 {
        self.end(end).area.len_bytes()
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(crate) fn is_up(&self, connection: usize) -> bool {
        self.connections[connection].is_up
    }

    /// The time at which something happens next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.agenda.next_ns()
    }

    /// Lets the clock go on to a time, and everything up to then happen.
    pub(crate) fn advance(&mut self, until_ns: u64) {
        while self.agenda.next_ns().is_some_and(|at| at <= until_ns) {
            if let Some((at_ns, event)) = self.agenda.pop() {
                self.now_ns = at_ns;
                self.happen(event);
            }
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    /// Takes the next notice of an end.
    pub(crate) fn notice(&mut self, end: EndId) -> Option<SimNotice> {
        self.end_mut(end).inbox.pop_front()
    }

    /// Ends that have something to look at since the last call.
    pub(crate) fn take_wakes(&mut self) -> Vec<EndId> {
        std::mem::take(&mut self.wakes)
    }

    /// Whether the device has refused a request since the last call.
    pub(crate) fn take_refused(&mut self, end: EndId) -> bool {
        std::mem::take(&mut self.end_mut(end).was_refused)
    }

    /// The connection is lost. Each living end hears of it within its time.
    pub(crate) fn kill(&mut self, connection: usize, within_ns: [u64; 2]) {
        if !std::mem::replace(&mut self.connections[connection].is_up, false) {
            return;
        }
        self.trace.note(self.now_ns, &[9, connection as u64], || format!("connection {connection} is lost"));
        for (is_server, within) in [false, true].into_iter().zip(within_ns) {
            let end = EndId { connection, is_server };
            self.end(end).area.cut();
            let at = self.now_ns + self.rng.u64(0..=within);
            self.agenda.plan(at, NetEvent::Notice { to: end, notice: SimNotice::Down });
        }
    }

    /// The process of an end is gone, and all its memory.
    pub(crate) fn crash(&mut self, end: EndId, heard_within_ns: u64) {
        self.end_mut(end).is_dead = true;
        self.kill(end.connection, [heard_within_ns; 2]);
    }

    pub(crate) fn violate(&mut self, rule: impl Into<String>) {
        let rule = rule.into();
        self.trace.note(self.now_ns, &[0], || format!("BROKEN: {rule}"));
        self.violation.get_or_insert(rule);
    }

    fn happen(&mut self, event: NetEvent) {
        match event {
            NetEvent::Arrive { from, op, until, is_lost } => self.arrive(from, op, until, is_lost),
            NetEvent::Landed { from, imm } => {
                if !self.is_up(from.connection) {
                    return;
                }
                self.end(from.peer()).area.finish();
                if let Some(imm) = imm {
                    self.tell(from.peer(), SimNotice::Imm(imm));
                }
                self.wakes.push(from.peer());
            }
            NetEvent::Sample { reader, sampling } => self.sample(reader, sampling),
            NetEvent::Notice { mut to, notice } => {
                if let (SimNotice::Datagram(_), Some(heir)) = (&notice, self.connections[to.connection].heir) {
                    to.connection = heir;
                }
                let is_free = matches!(notice, SimNotice::Datagram(_) | SimNotice::Down);
                if is_free || self.is_up(to.connection) {
                    self.tell(to, notice);
                }
            }
        }
    }

    fn tell(&mut self, to: EndId, notice: SimNotice) {
        if self.end(to).is_dead {
            return;
        }
        self.trace.note(self.now_ns, &[1, to.connection as u64], || format!("{to} hears {notice}"));
        self.end_mut(to).inbox.push_back(notice);
        self.wakes.push(to);
    }

    fn end(&self, end: EndId) -> &NetEnd {
        &self.connections[end.connection].ends[usize::from(end.is_server)]
    }

    fn end_mut(&mut self, end: EndId) -> &mut NetEnd {
        &mut self.connections[end.connection].ends[usize::from(end.is_server)]
    }

    fn is_unlucky(&mut self, probability: f64) -> bool {
        chance(&mut self.rng, probability)
    }
}
