//! Two queue pairs on one host.

use core::time::Duration;
use std::rc::Rc;

use super::node::{Node, Setup};
use super::pair::Side;
use super::recorder::Recorder;
use super::shm_path::{Delivered, LaneFrame, Shared, TestPath, View};
use crate::attr::QpState;
use crate::drop::DropReason;
use crate::shm::frame::FrameKind;
use crate::shm::path::ReceivedBody;
use crate::time::Time;
use crate::transcript::{CapturedConnection, FRONT_BYTES, PacketDirection, PayloadSource};

/// The executor of one-sided operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShmMode {
    /// The requester, in the peer's memory.
    Direct,
    /// The peer, on request by a frame.
    ByRequest,
    /// The peer, and SENDs lend their bytes.
    Lending,
}

impl ShmMode {
    pub(crate) const ALL: [ShmMode; 3] = [ShmMode::Direct, ShmMode::ByRequest, ShmMode::Lending];
}

/// Two queue pairs with lanes between them.
#[derive(Debug)]
pub(crate) struct ShmPair {
    pub(crate) a: Node,
    pub(crate) b: Node,
    pub(crate) shared: Rc<Shared>,
    /// Every frame that arrived: by whom it was sent, what.
    pub(crate) sent: Vec<(Side, FrameKind)>,
    /// Every frame that was ignored: by whom, why.
    pub(crate) dropped: Vec<(Side, DropReason)>,
}

impl ShmPair {
    /// Both in RTS.
    pub(crate) fn connected(setup: &Setup) -> ShmPair {
        let mut pair = ShmPair::ready_to_receive(setup);
        pair.a.enter_rts(setup);
        pair.b.enter_rts(setup);
        pair
    }

    /// The same pair, in which one-sided operations take this mode.
    pub(crate) fn in_mode(self, mode: ShmMode) -> ShmPair {
        for side in 0..2 {
            self.shared.reachable[side].set(mode == ShmMode::Direct);
            self.shared.lends[side].set(mode == ShmMode::Lending);
        }
        self
    }

    /// Both in RTR.
    pub(crate) fn ready_to_receive(setup: &Setup) -> ShmPair {
        let mut pair = ShmPair::new(setup);
        pair.enter_rtr(Side::A, setup);
        pair.enter_rtr(Side::B, setup);
        pair
    }

    /// Both in Reset.
    pub(crate) fn new(setup: &Setup) -> ShmPair {
        let (mut a, mut b) = (Node::new(setup, 1), Node::new(setup, 2));
        let shared = Rc::new(Shared::new([a.host.memory.clone(), b.host.memory.clone()]));
        for (side, node) in [&mut a, &mut b].into_iter().enumerate() {
            node.host.path = Some(TestPath { shared: shared.clone(), side, qpn: node.qp.qpn() });
        }
        ShmPair { a, b, shared, sent: Vec::new(), dropped: Vec::new() }
    }

    /// From Reset to RTR.
    pub(crate) fn enter_rtr(&mut self, side: Side, setup: &Setup) {
        let path = match side {
            Side::A => self.a.path_to(&self.b),
            Side::B => self.b.path_to(&self.a),
        };
        let peer = self.node(side.other()).qp.qpn();
        let node = self.node(side);
        node.enter_init(setup);
        assert!(node.qp.set_shm(true));
        node.enter_rtr(setup, path, peer);
    }

    /// Writes down from now on what both would have sent.
    pub(crate) fn write_down(&mut self) {
        for (recorder, node) in self.shared.recorders.iter().zip([&self.a, &self.b]) {
            *recorder.borrow_mut() = Some(Recorder::new(CapturedConnection::of(&node.qp)));
        }
    }

    /// The packets in the capture of one end: requests and responses, sent and received.
    pub(crate) fn packets(&self, side: Side) -> Vec<(PacketDirection, Vec<u8>)> {
        self.shared.recorders[index(side)]
            .borrow()
            .as_ref()
            .map(|recorder| recorder.packets.clone())
            .unwrap_or_default()
    }

    pub(crate) fn node(&mut self, side: Side) -> &mut Node {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Shows each to the other.
    fn publish(&self) {
        for (view, node) in self.shared.views.iter().zip([&self.a, &self.b]) {
            let attr = node.qp.query();
            let ready = matches!(attr.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
            let recorder = &self.shared.recorders[usize::from(!std::ptr::eq(node, &self.a))];
            if let Some(recorder) = &mut *recorder.borrow_mut() {
                recorder.transcript.set_connection(CapturedConnection::of(&node.qp));
            }
            let who = crate::memory::Accessor { pd: super::node::PD, qpn: node.qp.qpn() };
            view.set(ready.then_some(View { who, peer: attr.dest_qpn, access: attr.access }));
        }
    }

    /// One side carries out what it can.
    pub(crate) fn go(&mut self, side: Side, with_acks: bool) {
        self.publish();
        let node = self.node(side);
        node.qp.progress(with_acks, &mut node.host);
    }

    /// The next frame for `side`, if there is one, arrives.
    pub(crate) fn deliver(&mut self, side: Side) -> bool {
        let frame = self.shared.lanes[index(side.other())].borrow_mut().pop_front();
        let Some(frame) = frame else { return false };
        self.inject(side, &frame);
        true
    }

    /// A frame arrives at `side`, and is answered as the device would.
    pub(crate) fn inject(&mut self, side: Side, frame: &LaneFrame) {
        self.publish();
        self.sent.push((side.other(), frame.head.kind));
        let shared = self.shared.clone();
        let body = Delivered { frame, shared: &shared, from: index(side.other()) };
        let node = self.node(side);
        let outcome = node.qp.handle_frame(&frame.head, &body, &mut node.host);
        if !matches!(outcome, Err(DropReason::QpState)) {
            record(&shared, side, frame, &body);
        }
        if let Err(reason) = outcome {
            if reason == DropReason::QpState && frame.head.kind.is_request() {
                let answer = LaneFrame { head: frame.head.not_ready(), bytes: Vec::new(), lent: None };
                shared.lanes[index(side)].borrow_mut().push_back(answer);
            }
            self.dropped.push((side, reason));
        }
    }

    /// Passes frames until neither side has one. No timeout is waited for.
    pub(crate) fn pump(&mut self) {
        for _ in 0..100_000 {
            let mut quiet = true;
            for side in [Side::A, Side::B] {
                self.go(side, true);
                while self.deliver(side) {
                    quiet = false;
                }
                let node = self.node(side);
                if node.qp.waits_for_lane() {
                    node.qp.resume_sending();
                }
                quiet &= !node.qp.wants_transmit();
            }
            if quiet && self.shared.lanes.iter().all(|lane| lane.borrow().is_empty()) {
                return;
            }
        }
        panic!("two queue pairs talk for ever");
    }

    /// A few steps of both, however they end.
    pub(crate) fn pump_some(&mut self) {
        for _ in 0..4 {
            for side in [Side::A, Side::B] {
                self.go(side, true);
                self.deliver(side);
            }
        }
    }

    /// As [`pump`](ShmPair::pump), and waits for timeouts too, until none is left.
    pub(crate) fn run(&mut self) {
        self.run_for(Duration::from_secs(1_000_000));
    }

    /// As [`run`](ShmPair::run), but not for longer than `most`.
    pub(crate) fn run_for(&mut self, most: Duration) {
        let end = self.now() + most;
        for _ in 0..100_000 {
            self.pump();
            if self.now() >= end || !self.elapse() {
                return;
            }
        }
        panic!("two queue pairs time out for ever");
    }

    pub(crate) fn now(&self) -> Time {
        self.shared.now.get()
    }

    /// Jumps to the next timeout. `false`: there is none.
    pub(crate) fn elapse(&mut self) -> bool {
        let next = [self.a.qp.next_timeout(), self.b.qp.next_timeout()];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        self.shared.now.set(self.now().max(next));
        let now = self.now();
        for node in [&mut self.a, &mut self.b] {
            node.qp.handle_timeout(now, &mut node.host);
        }
        true
    }

    /// The process of `side` is gone.
    pub(crate) fn kill(&mut self, side: Side) {
        self.shared.dead[index(side)].set(true);
        self.shared.lanes[index(side.other())].borrow_mut().clear();
        let node = self.node(side.other());
        node.qp.peer_died(&mut node.host);
    }
}

/// As the device would, of a frame that has arrived.
fn record(shared: &Shared, side: Side, frame: &LaneFrame, body: &Delivered<'_>) {
    if let Some(recorder) = &mut *shared.recorders[index(side)].borrow_mut() {
        let mut front = [0; FRONT_BYTES];
        body.front(&mut front);
        let prefix = frame.head.kind.prefix_bytes();
        let read = &mut |at: u32, out: &mut [u8]| body.copy_out(prefix, at, out);
        recorder.arrived(&frame.head, &front, PayloadSource { len_bytes: body.len_bytes(prefix), read });
    }
}

pub(crate) fn index(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}
