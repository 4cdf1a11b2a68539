//! Checks the packets of a queue pair from outside: a second opinion on sequence numbers, on the order and length of
//! packets, on retransmissions, on the window and on the number of outstanding READs. It knows only packets, and
//! which of them were accepted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use transport::{Mtu, QpState, QpType};
use wire::{Operation, Packet, Position, RKey, SyndromeKind};

use super::{Outcome, ensure};

/// Cost of a packet in the window beside its bytes.
const PACKET_OVERHEAD_BYTES: u64 = 128;

/// The properties of a queue pair that the observer needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WireRules {
    pub(crate) service: QpType,
    pub(crate) mtu: Mtu,
    pub(crate) rd_atomic: usize,
    pub(crate) window_bytes: u64,
}

/// A READ or atomic without its whole answer, in packet numbers.
#[derive(Clone, Copy, Debug)]
struct Asked {
    start: u64,
    next: u64,
    end: u64,
}

/// The cost of a request in the window.
#[derive(Clone, Copy, Debug)]
struct Cost {
    end: u64,
    packets: u64,
    bytes: u64,
}

impl Cost {
    /// Of the packets from `acknowledged` on; the last one counts as a full one.
    fn left(&self, acknowledged: u64, mtu_bytes: u64) -> u64 {
        let packets = self.packets.min(self.end.saturating_sub(acknowledged));
        let done = (self.packets - packets) * mtu_bytes;
        self.bytes.saturating_sub(done) + packets * PACKET_OVERHEAD_BYTES
    }
}

/// The observer of one queue pair. Packets are numbered from the first PSN on.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// The next request packet that has never been sent.
    fresh: u64,
    /// Everything before has been acknowledged.
    acknowledged: u64,
    /// Cost of each request in flight, per packet.
    on_the_way: VecDeque<Cost>,
    /// The message that is being sent.
    open: Option<Operation>,
    /// The next address of a WRITE that is sent as several of one packet, if the last packet may have been of one.
    written: Option<(RKey, u64)>,
    asked: VecDeque<Asked>,
    /// Hashes of request packets, but for READs.
    sent: BTreeMap<u64, u64>,
    /// The packets that the peer reported as arrived out of order.
    arrived: BTreeSet<u64>,
    /// The next request packet of the peer that has not been taken.
    expected: u64,
    /// Bytes of a full packet.
    mtu_bytes: u64,
    /// Those after it that were taken.
    ahead: BTreeSet<u64>,
}

impl Observer {
    /// A request leaves; `number` is its PSN's.
    pub(crate) fn request_sent(
        &mut self,
        rules: &WireRules,
        state: QpState,
        number: u64,
        packet: &Packet<'_>,
    ) -> Outcome {
        check_length(rules, packet)?;
        self.mtu_bytes = rules.mtu.bytes().into();
        if number != self.fresh {
            return self.sent_again(rules, number, packet);
        }
        if rules.service != QpType::Ud {
            self.check_order(rules, state, packet)?;
        }
        let span = span(rules, packet);
        self.fresh += span;
        if rules.service != QpType::Rc {
            return Ok(());
        }
        self.check_window(rules, span, packet)?;
        self.check_depth(rules, number, packet)?;
        if packet.info().operation != Operation::ReadRequest {
            self.sent.insert(number, hash(packet));
        }
        Ok(())
    }

    fn sent_again(&mut self, rules: &WireRules, number: u64, packet: &Packet<'_>) -> Outcome {
        const RULE: &str = "requests are numbered without a gap";
        let again = rules.service == QpType::Rc && number < self.fresh;
        ensure!(RULE, again, "packet {number} is sent, but {} is the next", self.fresh);
        let end = self.end_of_reply(number, packet).unwrap_or(number + span(rules, packet));
        ensure!(RULE, end <= self.fresh, "packets up to {end} are sent again, but only {} were", self.fresh);
        let same = self.sent.get(&number).is_none_or(|sent| *sent == hash(packet));
        ensure!("what is sent again is the same", same, "packet {number}, {}", packet.info().name);
        Ok(())
    }

    fn check_order(&mut self, rules: &WireRules, state: QpState, packet: &Packet<'_>) -> Outcome {
        const RULE: &str = "packets of a message follow each other";
        let (operation, position) = (packet.info().operation, packet.info().position);
        let starts = matches!(position, Position::First | Position::Only);
        let fits = if starts { self.open.is_none() } else { self.open == Some(operation) };
        ensure!(RULE, fits, "{} while {:?} is under way", packet.info().name, self.open);
        // A READ goes on with further requests, and so does a WRITE in pieces.
        let goes_on = self.written.is_some() && self.written == packet.reth().map(|reth| (reth.rkey, reth.addr));
        self.written = piece_end(rules, packet);
        let begins = starts && operation != Operation::ReadRequest && !goes_on;
        ensure!("SQD begins nothing", !begins || state != QpState::Sqd, "{}", packet.info().name);
        self.open = matches!(position, Position::First | Position::Middle).then_some(operation);
        Ok(())
    }

    /// More than the window is in flight only if it is a single request.
    fn check_window(&mut self, rules: &WireRules, span: u64, packet: &Packet<'_>) -> Outcome {
        let bytes = match packet.info().operation {
            Operation::ReadRequest | Operation::ObjectRead => packet.reth().map_or(0, |reth| u64::from(reth.len_bytes)),
            _ => packet.payload().len() as u64,
        };
        let mtu_bytes = u64::from(rules.mtu.bytes());
        let request = Cost { end: self.fresh, packets: span, bytes };
        let there = |cost: &&Cost| cost.packets == 1 && self.arrived.contains(&(cost.end - 1));
        let on_the_way = self.on_the_way.iter().filter(|cost| !there(cost));
        let on_the_way: u64 = on_the_way.map(|cost| cost.left(self.acknowledged, mtu_bytes)).sum();
        let cost = request.left(0, mtu_bytes);
        ensure!(
            "what is on the way fits the window",
            on_the_way == 0 || on_the_way + cost <= rules.window_bytes,
            "{on_the_way} bytes are on the way and {cost} more are sent, the window has {}",
            rules.window_bytes
        );
        self.on_the_way.push_back(request);
        Ok(())
    }

    fn check_depth(&mut self, rules: &WireRules, number: u64, packet: &Packet<'_>) -> Outcome {
        use Operation::{AtomicWrite, CompareSwap, FetchAdd, Flush, ObjectRead, ReadRequest};
        let operation = packet.info().operation;
        if !matches!(operation, ReadRequest | CompareSwap | FetchAdd | AtomicWrite | Flush | ObjectRead) {
            return Ok(());
        }
        self.asked.push_back(Asked { start: number, next: number, end: self.fresh });
        ensure!(
            "READs and atomics outstanding stay within max_rd_atomic",
            self.asked.len() <= rules.rd_atomic,
            "{} are outstanding",
            self.asked.len()
        );
        Ok(())
    }

    /// Whether a request packet of the peer, and all before it, were taken.
    pub(crate) fn has_taken(&self, number: u64) -> bool {
        number < self.expected
    }

    /// A response leaves. It must not speak of what the peer has not sent, or we have not taken.
    pub(crate) fn response_sent(&self, number: u64, packet: &Packet<'_>) -> Outcome {
        const RULE: &str = "responses answer what has arrived";
        let kind = packet.aeth().map(|aeth| aeth.syndrome.kind());
        for arrived in told(number, packet) {
            let is_true = arrived < self.expected || self.ahead.contains(&arrived);
            ensure!("a selective ACK tells the truth", is_true, "{arrived} has not arrived");
        }
        match kind {
            Some(SyndromeKind::Nak(_) | SyndromeKind::RnrNak { .. }) => {
                ensure!(RULE, number <= self.expected, "{kind:?} for {number}, but {} is expected", self.expected);
            }
            _ => ensure!(
                RULE,
                number < self.expected || number == 0xff_ffff,
                "{} for {number}, but {} is expected",
                packet.info().name,
                self.expected
            ),
        }
        Ok(())
    }

    /// A request of the peer was taken.
    pub(crate) fn request_taken(&mut self, rules: &WireRules, number: u64, packet: &Packet<'_>) {
        if number == self.expected {
            self.expected += span(rules, packet);
        } else if number > self.expected {
            self.ahead.insert(number);
        }
        while self.ahead.remove(&self.expected) {
            self.expected += 1;
        }
    }

    /// A response was taken: what does it acknowledge?
    pub(crate) fn response_taken(&mut self, number: u64, packet: &Packet<'_>) {
        let upto = match packet.info().operation {
            Operation::ReadResponse | Operation::AtomicAcknowledge => {
                if let Some(asked) = self.asked.front_mut() {
                    asked.next = asked.next.max(number + 1);
                }
                number + 1
            }
            Operation::Reply => self.reply_taken(number, packet),
            _ => match packet.aeth().map(|aeth| aeth.syndrome.kind()) {
                Some(SyndromeKind::Ack { .. }) => number + 1,
                _ => number,
            },
        };
        self.arrived.extend(told(number, packet));
        while self.asked.front().is_some_and(|asked| asked.next >= asked.end) {
            self.asked.pop_front();
        }
        self.acknowledge(upto);
    }

    /// The end of the request at `number` that is answered by a reply: all of it is asked for again, from its middle, too.
    fn end_of_reply(&self, number: u64, packet: &Packet<'_>) -> Option<u64> {
        let asked = self.asked.iter().find(|asked| number < asked.end)?;
        packet.info().is_extension().then_some(asked.end)
    }

    /// A packet of a reply. A short one is the last, and ends the request.
    fn reply_taken(&mut self, number: u64, packet: &Packet<'_>) -> u64 {
        let mtu_bytes = self.mtu_bytes;
        let Some(asked) = self.asked.front_mut() else { return number + 1 };
        let left = packet.reply().map_or(0, |reply| u64::from(reply.len_bytes));
        let is_last = left <= (number + 1 - asked.start) * mtu_bytes;
        asked.next = asked.next.max(if is_last { asked.end } else { number + 1 });
        asked.next
    }

    /// A response came too early to be taken. It acknowledges what was sent before it.
    pub(crate) fn response_ahead(&mut self, number: u64) {
        self.acknowledge(number);
    }

    /// Everything before `upto`, but no READ or atomic that is not answered.
    fn acknowledge(&mut self, upto: u64) {
        let upto = self.asked.front().map_or(upto, |asked| asked.next.min(upto));
        if upto > self.fresh || upto < self.acknowledged {
            return;
        }
        self.acknowledged = upto;
        while self.on_the_way.front().is_some_and(|cost| cost.end <= upto) {
            self.on_the_way.pop_front();
        }
        self.sent = self.sent.split_off(&upto);
        self.arrived = self.arrived.split_off(&upto);
    }
}

/// The packets that a selective ACK reports as arrived.
fn told(number: u64, packet: &Packet<'_>) -> impl Iterator<Item = u64> {
    let sack = packet.sack().unwrap_or_default();
    (0..wire::Sack::BITS).filter(move |offset| sack.has(*offset)).map(move |offset| number + u64::from(offset))
}

/// Packet numbers that a request takes.
fn span(rules: &WireRules, packet: &Packet<'_>) -> u64 {
    match packet.reth() {
        Some(reth) if matches!(packet.info().operation, Operation::ReadRequest | Operation::ObjectRead) => {
            u64::from(reth.len_bytes.div_ceil(rules.mtu.bytes()).max(1))
        }
        _ => 1,
    }
}

/// The address of the next piece of a WRITE that is sent as several of one packet, if this full packet is one of
/// them.
fn piece_end(rules: &WireRules, packet: &Packet<'_>) -> Option<(RKey, u64)> {
    let info = packet.info();
    let full = packet.payload().len() as u64 == u64::from(rules.mtu.bytes());
    let piece = info.operation == Operation::Write && info.position == Position::Only && full;
    let reth = packet.reth().filter(|_| piece)?;
    Some((reth.rkey, reth.addr.wrapping_add(u64::from(reth.len_bytes))))
}

fn check_length(rules: &WireRules, packet: &Packet<'_>) -> Outcome {
    let (len, mtu) = (packet.payload().len(), rules.mtu.bytes() as usize);
    let fits = match packet.info().position {
        Position::First | Position::Middle => len == mtu,
        Position::Last => (1..=mtu).contains(&len),
        Position::Only => len <= mtu,
    };
    ensure!("packets are as long as their place demands", fits, "{}: {len} bytes", packet.info().name);
    Ok(())
}

/// A hash of everything but AckReq and the mark, which may differ between transmissions.
fn hash(packet: &Packet<'_>) -> u64 {
    let bth = wire::Bth { ack_req: false, mark: wire::Mark::NONE, ..packet.bth() }.encode();
    let words = bth.chunks(8).chain(packet.bytes()[wire::Bth::LEN..].chunks(8));
    words.fold(0, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}
