//! A hostile end: it posts whatever it likes on its connection, beside what an honest session of its posts.

use fastrand::Rng;

use crate::carrier::MAX_SLOTS;
use crate::code::{Code, Executed};
use crate::frame::{FrameHeader, HEADER_BYTES, RpcKind};
use crate::session::Arrived;
use crate::sim::network::SimOp;
use crate::sim::pick;
use crate::sim::server::LiveServer;
use crate::sim::world::{SimTask, SimWorld};

impl SimWorld {
    /// The hostile end of a connection does something. In the end the connection is lost.
    pub(crate) fn be_hostile(&mut self, connection: usize, left: u32) {
        let Some(end) = self.hostile_end(connection) else {
            return;
        };
        self.account.see("hostile");
        if left == 0 {
            self.network.borrow_mut().kill(connection, [10_000; 2]);
            return;
        }
        let area_bytes = self.network.borrow().area_bytes(end.peer());
        let node = connection as u16;
        for _ in 0..self.rng.u32(1..4) {
            let op = hostile_op(&mut self.rng, area_bytes, node);
            // A busy device stops nobody.
            let _ = self.network.borrow_mut().post(end, op);
        }
        if self.rng.bool() {
            let mut bytes = self.scenario.way.datagram_head(&mut self.rng, node, !end.is_server);
            bytes.extend(hostile_message(&mut self.rng));
            let _ = self.network.borrow_mut().post_datagram(end, bytes);
        }
        self.plan_in(20_000, SimTask::Hostile(connection, left - 1));
    }

    /// A request of a hostile connection: it is answered at once, or never.
    pub(crate) fn on_hostile_request(&mut self, live: &mut LiveServer, arrived: &Arrived<Vec<u8>>, server: usize) {
        let now = self.server_clock(server);
        if self.rng.u8(..4) == 0 || live.session.is_pointless(arrived.id, arrived.deadline, now) {
            return;
        }
        let most = self.scenario.limits.max_message_bytes.min(20_000);
        let body = vec![7; self.rng.usize(..=most)];
        let code = if self.rng.bool() { Code::Ok } else { Code::Internal };
        live.session.reply(arrived.id, (code, Executed::Yes), 0, &body, now);
    }
}

fn hostile_op(rng: &mut Rng, area_bytes: u64, node: u16) -> SimOp {
    let place = |rng: &mut Rng, len: usize| rng.u64(..=(area_bytes.saturating_sub(len as u64)) / 8) * 8;
    match rng.u8(..8) {
        0 => SimOp::Send(hostile_message(rng)),
        1..=3 => {
            let bytes = hostile_record(rng);
            let at = place(rng, bytes.len());
            let slot = u32::from(rng.u16(..MAX_SLOTS + 2));
            let imm = (rng.u8(..2) == 0).then_some(u32::from(node) | slot << 16);
            let at = if rng.bool() { at / 64 * 64 } else { at };
            fit(SimOp::Write { at, bytes, imm }, area_bytes)
        }
        4 => {
            let mut bytes = vec![0; rng.usize(..=64)];
            rng.fill(&mut bytes);
            let imm = (rng.u8(..8) == 0).then(|| rng.u32(..));
            fit(SimOp::Write { at: place(rng, bytes.len()), bytes, imm }, area_bytes)
        }
        5 => {
            let most = 1 << pick(rng, &[4, 12, 62]);
            fit(SimOp::Write { at: 0, bytes: rng.u64(..most).to_le_bytes().to_vec(), imm: None }, area_bytes)
        }
        6 => {
            let imm = u32::from(node) | u32::from(rng.u16(..MAX_SLOTS)) << 16;
            SimOp::Write { at: 0, bytes: Vec::new(), imm: Some(imm) }
        }
        _ => fit(SimOp::Write { at: place(rng, 8), bytes: vec![0; 8], imm: None }, area_bytes),
    }
}

/// A WRITE that the device would refuse does nothing, which is less than another.
fn fit(op: SimOp, area_bytes: u64) -> SimOp {
    match op {
        SimOp::Write { at, mut bytes, imm } => {
            bytes.truncate(area_bytes.saturating_sub(at) as usize);
            SimOp::Write { at, bytes, imm }
        }
        other => other,
    }
}

fn hostile_header(rng: &mut Rng) -> FrameHeader {
    let kinds = [RpcKind::Request, RpcKind::Request, RpcKind::Reply, RpcKind::Cancel, RpcKind::Done, RpcKind::Drain];
    FrameHeader {
        kind: pick(rng, &kinds),
        flags: rng.u8(..4),
        slot: pick(rng, &[0, 0, 1, 2, 63, 64, u16::MAX]),
        number: pick(rng, &[0, 1, 1, 1, 2, 3, u32::MAX]),
        body_bytes: pick(rng, &[0, 0, 8, 20, 20, 32, 96, 4_000, u32::MAX]),
        info: pick(rng, &[0, 0, 1, 0x0105, u32::MAX]),
        method: rng.u64(..4),
    }
}

/// A record with both ends, whose body is seldom what the header says.
fn hostile_record(rng: &mut Rng) -> Vec<u8> {
    let header = hostile_header(rng);
    let head = header.encode();
    let mut bytes = head.to_vec();
    let body_bytes = header.body_bytes.min(4_096) as usize;
    bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(body_bytes.next_multiple_of(8)));
    bytes.extend_from_slice(&head[..8]);
    damage(rng, &mut bytes);
    bytes
}

fn hostile_message(rng: &mut Rng) -> Vec<u8> {
    let mut header = hostile_header(rng);
    header.body_bytes = pick(rng, &[0, 0, 0, 1]);
    let mut bytes = header.encode().to_vec();
    damage(rng, &mut bytes);
    if rng.u8(..8) == 0 {
        bytes.truncate(rng.usize(..=HEADER_BYTES));
    }
    bytes
}

fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    if rng.u8(..4) == 0 && !bytes.is_empty() {
        let at = rng.usize(..bytes.len());
        bytes[at] = rng.u8(..);
    }
}
