//! Two queue pairs and a loop.

use core::time::Duration;
use std::collections::VecDeque;

use wire::{Bth, Extensions, Opcode, Packet};

use super::node::{Node, Setup};
use crate::attr::QpType;
use crate::drop::DropReason;
use crate::network::Transmit;
use crate::time::Time;
use crate::wr::AddressVector;

/// One end of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    A,
    B,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// The fate of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketFate {
    Pass,
    Drop,
    Duplicate,
    /// A switch marks it: congestion. Only if it says that it understands marks.
    Mark,
    /// Arrives after everything else that left in the same round.
    Late,
}

/// Two queue pairs, joined. Packets take one round to arrive, and a round takes a microsecond.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: Node,
    pub(crate) b: Node,
    pub(crate) now: Time,
    /// Every packet that was sent: by whom, what.
    pub(crate) sent: Vec<(Side, Opcode)>,
    /// Every packet that was ignored: by whom, why.
    pub(crate) dropped: Vec<(Side, DropReason)>,
}

impl Pair {
    /// Both in RTS.
    pub(crate) fn connected(setup: &Setup) -> Pair {
        Pair::of_two(setup, setup)
    }

    /// Both in RTS, each as its own setup says.
    pub(crate) fn of_two(first: &Setup, second: &Setup) -> Pair {
        let mut pair = Pair::ready(first, second);
        pair.a.enter_rts(first);
        pair.b.enter_rts(second);
        pair
    }

    /// Both in RTR. Opposite an XRC initiator there is its target.
    pub(crate) fn ready_to_receive(setup: &Setup) -> Pair {
        Pair::ready(setup, setup)
    }

    fn ready(setup: &Setup, second: &Setup) -> Pair {
        let opposite = match setup.qp_type {
            QpType::XrcSend => QpType::XrcRecv,
            other => other,
        };
        let (mut a, mut b) = (Node::new(setup, 1), Node::new(&Setup { qp_type: opposite, ..*second }, 2));
        let (to_b, to_a) = (a.path_to(&b), b.path_to(&a));
        a.enter_init(setup);
        b.enter_init(second);
        a.enter_rtr(setup, to_b, b.qp.qpn());
        b.enter_rtr(second, to_a, a.qp.qpn());
        Pair { a, b, now: Time(0), sent: Vec::new(), dropped: Vec::new() }
    }

    pub(crate) fn node(&mut self, side: Side) -> &mut Node {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Passes packets until neither side has one to send. Time passes only by rounds: no timeout is waited for.
    pub(crate) fn pump(&mut self) {
        self.pump_with(|_, _| PacketFate::Pass);
    }

    /// As [`pump`](Pair::pump), with a say on each packet.
    pub(crate) fn pump_with(&mut self, mut judge: impl FnMut(Side, &Packet<'_>) -> PacketFate) {
        for _ in 0..100_000 {
            if !self.round(&mut judge) {
                return;
            }
        }
        panic!("two queue pairs talk for ever");
    }

    /// As [`pump_with`](Pair::pump_with), and waits for timeouts too, until none is left.
    pub(crate) fn run_with(&mut self, mut judge: impl FnMut(Side, &Packet<'_>) -> PacketFate) {
        for _ in 0..10_000 {
            self.pump_with(&mut judge);
            if !self.elapse() {
                return;
            }
        }
        panic!("two queue pairs time out for ever");
    }

    /// As [`run_with`](Pair::run_with) over a wire that loses nothing.
    pub(crate) fn run(&mut self) {
        self.run_with(|_, _| PacketFate::Pass);
    }

    /// Jumps to the next timeout and tells whom it concerns. `false`: there is none.
    pub(crate) fn elapse(&mut self) -> bool {
        let next = [self.a.qp.next_timeout(), self.b.qp.next_timeout()];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        for node in [&mut self.a, &mut self.b] {
            node.qp.handle_timeout(self.now, &mut node.host);
        }
        true
    }

    /// One round: everything that both want to send leaves, then arrives.
    pub(crate) fn round(&mut self, judge: &mut impl FnMut(Side, &Packet<'_>) -> PacketFate) -> bool {
        let mut wire = VecDeque::new();
        let mut late = Vec::new();
        for side in [Side::A, Side::B] {
            let now = self.now;
            while let Some((bytes, transmit)) = self.node(side).poll(now) {
                let packet = Packet::parse(&bytes).expect("a well-formed packet");
                self.sent.push((side, packet.opcode()));
                let verdict = judge(side, &packet);
                let mut flight = (side, bytes, transmit);
                if verdict == PacketFate::Mark && transmit.address.traffic_class & 3 != 0 {
                    flight.2.address.traffic_class |= 3;
                }
                match verdict {
                    PacketFate::Pass | PacketFate::Mark => wire.push_back(flight),
                    PacketFate::Drop => {}
                    PacketFate::Duplicate => wire.extend([flight.clone(), flight]),
                    PacketFate::Late => late.push(flight),
                }
                assert!(wire.len() < 1 << 20, "a queue pair sends without end");
            }
        }
        let quiet = wire.is_empty() && late.is_empty();
        self.now = self.now + Duration::from_micros(1);
        for (side, bytes, transmit) in wire.into_iter().chain(late) {
            self.deliver(side, &bytes, &transmit);
        }
        !quiet
    }

    /// The cookie of a side's responder, which only its peer is told.
    pub(crate) fn cookie_of(&mut self, side: Side) -> wire::Cookie {
        self.node(side).qp.own_cookie().expect("an RC queue pair has one")
    }

    /// A packet made by hand arrives, as if the other end had sent it. Pad and
    /// destination are filled in.
    pub(crate) fn inject(
        &mut self,
        to: Side,
        bth: Bth,
        extensions: Extensions,
        payload: &[u8],
    ) -> Result<(), DropReason> {
        self.inject_in(to, bth, extensions, payload, 0)
    }

    /// The same with a mark of congestion.
    pub(crate) fn inject_marked(
        &mut self,
        to: Side,
        bth: Bth,
        extensions: Extensions,
        payload: &[u8],
    ) -> Result<(), DropReason> {
        self.inject_in(to, bth, extensions, payload, 3)
    }

    fn inject_in(
        &mut self,
        to: Side,
        bth: Bth,
        extensions: Extensions,
        payload: &[u8],
        traffic_class: u8,
    ) -> Result<(), DropReason> {
        let (now, from) = (self.now, self.node(to.other()).gid);
        let node = self.node(to);
        let mut bytes = Vec::new();
        extensions.encode_packet(&Bth { dest_qpn: node.qp.qpn(), ..bth }, payload, &mut bytes);
        let address = AddressVector { traffic_class, ..AddressVector::new(from, node.gid) };
        node.take_in(&bytes, &Transmit { len_bytes: bytes.len(), address, source_port: 0xc000 }, now)
    }

    /// A packet from `side` arrives at the other.
    pub(crate) fn deliver(&mut self, side: Side, bytes: &[u8], transmit: &Transmit) {
        let now = self.now;
        let outcome = self.node(side.other()).take_in(bytes, transmit, now);
        if let Err(reason) = outcome {
            self.dropped.push((side.other(), reason));
        }
    }
}
