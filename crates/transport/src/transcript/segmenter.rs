//! A message, cut into packets as its bytes become known.

use wire::{Aeth, Bth, Extensions, Ieth, ImmDt, Opcode, Psn, Reth, Syndrome};

use super::payload::PayloadSource;

/// The opcodes of a message's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageKind {
    Send,
    Write,
    Response,
}

/// A SEND, a WRITE or the response to a READ.
#[derive(Debug)]
pub(super) struct Segmenter {
    pub(super) kind: MessageKind,
    /// Of the request.
    pub(super) number: u32,
    pub(super) first_psn: Psn,
    pub(super) mtu: u32,
    pub(super) len_bytes: u32,
    /// WRITE: the remote address.
    pub(super) reth: Reth,
    pub(super) imm: Option<u32>,
    pub(super) invalidate: Option<u32>,
    pub(super) solicited: bool,
    /// Responses: the MSN.
    pub(super) msn: u32,
    /// Its packets are not written.
    pub(super) hidden: bool,
    /// Bytes in packets.
    pub(super) at: u32,
    pub(super) packets: u32,
    /// The beginning of the next packet.
    pub(super) rest: Vec<u8>,
}

impl Segmenter {
    pub(super) fn new(kind: MessageKind, number: u32, first_psn: Psn, mtu: u32, len_bytes: u32) -> Segmenter {
        Segmenter {
            kind,
            number,
            first_psn,
            mtu,
            len_bytes,
            reth: Reth::default(),
            imm: None,
            invalidate: None,
            solicited: false,
            msn: 0,
            hidden: false,
            at: 0,
            packets: 0,
            rest: Vec::new(),
        }
    }

    /// Packets that a message of this many bytes takes.
    pub(super) fn packets_of(len_bytes: u32, mtu: u32) -> u32 {
        len_bytes.div_ceil(mtu).max(1)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.packets > 0 && self.at == self.len_bytes
    }

    /// Takes the next bytes, and gives each packet that they fill. False if they could not be had.
    pub(super) fn feed(&mut self, bytes: PayloadSource<'_>, packet: &mut dyn FnMut(Bth, &Extensions, &[u8])) -> bool {
        let mut taken = 0;
        while !self.is_whole() {
            let have = self.rest.len() as u32;
            let wanted = self.mtu.min(self.len_bytes - self.at) - have;
            let part = wanted.min(bytes.len_bytes - taken);
            self.rest.resize((have + part) as usize, 0);
            if part > 0 && !(bytes.read)(taken, &mut self.rest[have as usize..]) {
                return false;
            }
            taken += part;
            if part < wanted {
                break;
            }
            self.finish_packet(packet);
        }
        true
    }

    fn finish_packet(&mut self, packet: &mut dyn FnMut(Bth, &Extensions, &[u8])) {
        let first = self.packets == 0;
        self.at += self.rest.len() as u32;
        let last = self.at == self.len_bytes;
        let bth = Bth {
            opcode: self.opcode(first, last),
            psn: self.first_psn.add(self.packets),
            solicited: last && self.solicited,
            ack_req: last && self.kind != MessageKind::Response,
            ..Bth::default()
        };
        if !self.hidden {
            packet(bth, &self.extensions(first, last), &self.rest);
        }
        self.packets += 1;
        self.rest.clear();
    }

    fn extensions(&self, first: bool, last: bool) -> Extensions {
        let aeth = Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: self.msn };
        Extensions {
            reth: (first && self.kind == MessageKind::Write).then_some(self.reth),
            aeth: ((first || last) && self.kind == MessageKind::Response).then_some(aeth),
            imm: self.imm.filter(|_| last).map(ImmDt),
            ieth: self.invalidate.filter(|_| last).map(|rkey| Ieth(wire::RKey(rkey))),
            ..Extensions::default()
        }
    }

    fn opcode(&self, first: bool, last: bool) -> Opcode {
        use Opcode as O;
        let (imm, invalidate) = (self.imm.is_some(), self.invalidate.is_some());
        match (self.kind, first, last) {
            (MessageKind::Send, true, false) => O::RC_SEND_FIRST,
            (MessageKind::Send, false, false) => O::RC_SEND_MIDDLE,
            (MessageKind::Send, false, true) if imm => O::RC_SEND_LAST_IMM,
            (MessageKind::Send, false, true) if invalidate => O::RC_SEND_LAST_INVALIDATE,
            (MessageKind::Send, false, true) => O::RC_SEND_LAST,
            (MessageKind::Send, true, true) if imm => O::RC_SEND_ONLY_IMM,
            (MessageKind::Send, true, true) if invalidate => O::RC_SEND_ONLY_INVALIDATE,
            (MessageKind::Send, true, true) => O::RC_SEND_ONLY,
            (MessageKind::Write, true, false) => O::RC_WRITE_FIRST,
            (MessageKind::Write, false, false) => O::RC_WRITE_MIDDLE,
            (MessageKind::Write, false, true) if imm => O::RC_WRITE_LAST_IMM,
            (MessageKind::Write, false, true) => O::RC_WRITE_LAST,
            (MessageKind::Write, true, true) if imm => O::RC_WRITE_ONLY_IMM,
            (MessageKind::Write, true, true) => O::RC_WRITE_ONLY,
            (MessageKind::Response, true, false) => O::RC_READ_RESPONSE_FIRST,
            (MessageKind::Response, false, false) => O::RC_READ_RESPONSE_MIDDLE,
            (MessageKind::Response, false, true) => O::RC_READ_RESPONSE_LAST,
            (MessageKind::Response, true, true) => O::RC_READ_RESPONSE_ONLY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets of a message that comes in parts: opcode, PSN, bytes.
    fn cut(mut message: Segmenter, parts: &[usize]) -> Vec<(Opcode, u32, Vec<u8>)> {
        let all: Vec<u8> = (0..parts.iter().sum::<usize>()).map(|at| (at % 251) as u8).collect();
        let mut packets = Vec::new();
        let mut before = 0;
        for part in parts {
            let mut read = |at: u32, out: &mut [u8]| {
                let at = before + at as usize;
                out.copy_from_slice(&all[at..at + out.len()]);
                true
            };
            let bytes = PayloadSource { len_bytes: *part as u32, read: &mut read };
            assert!(message.feed(bytes, &mut |bth, extensions, payload| {
                assert!(extensions.fit(bth.opcode.info().expect("an opcode")), "{bth:?} {extensions:?}");
                packets.push((bth.opcode, bth.psn.get(), payload.to_vec()));
            }));
            before += part;
        }
        let whole: Vec<u8> = packets.iter().flat_map(|(_, _, payload)| payload.clone()).collect();
        assert!(!message.is_whole() || whole == all[..message.len_bytes as usize]);
        packets
    }

    fn send(len_bytes: u32) -> Segmenter {
        Segmenter::new(MessageKind::Send, 0, Psn::new(0xff_ffff), 256, len_bytes)
    }

    fn opcodes(packets: &[(Opcode, u32, Vec<u8>)]) -> Vec<Opcode> {
        packets.iter().map(|(opcode, ..)| *opcode).collect()
    }

    #[test]
    fn the_mtu_cuts() {
        use Opcode as O;
        let table: [(u32, &[Opcode]); 6] = [
            (0, &[O::RC_SEND_ONLY]),
            (1, &[O::RC_SEND_ONLY]),
            (256, &[O::RC_SEND_ONLY]),
            (257, &[O::RC_SEND_FIRST, O::RC_SEND_LAST]),
            (512, &[O::RC_SEND_FIRST, O::RC_SEND_LAST]),
            (513, &[O::RC_SEND_FIRST, O::RC_SEND_MIDDLE, O::RC_SEND_LAST]),
        ];
        for (len, expected) in table {
            let packets = cut(send(len), &[len as usize]);
            assert_eq!(opcodes(&packets), expected, "{len}");
            assert_eq!(packets.len() as u32, Segmenter::packets_of(len, 256));
            let psns: Vec<u32> = packets.iter().map(|(_, psn, _)| *psn).collect();
            assert_eq!(psns, [0xff_ffff, 0, 1][..packets.len()], "PSNs wrap");
        }
    }

    #[test]
    fn parts_of_any_size_make_the_same_packets() {
        let whole = cut(send(1000), &[1000]);
        for parts in [&[1, 999][..], &[256, 256, 256, 232], &[255, 2, 255, 488], &[0, 300, 0, 700], &[600, 900]] {
            assert_eq!(cut(send(1000), parts), whole, "{parts:?}");
        }
        assert_eq!(cut(send(1000), &[300, 300]), whole[..2], "what is there so far");
    }

    #[test]
    fn the_ends_carry_more() {
        use Opcode as O;
        let kind = |kind, len| Segmenter::new(kind, 0, Psn::new(0), 256, len);
        let imm = |series_, len| Segmenter { imm: Some(7), ..kind(series_, len) };
        assert_eq!(opcodes(&cut(imm(MessageKind::Send, 300), &[300])), [O::RC_SEND_FIRST, O::RC_SEND_LAST_IMM]);
        assert_eq!(opcodes(&cut(imm(MessageKind::Write, 0), &[0])), [O::RC_WRITE_ONLY_IMM]);
        assert_eq!(opcodes(&cut(imm(MessageKind::Write, 300), &[300])), [O::RC_WRITE_FIRST, O::RC_WRITE_LAST_IMM]);
        let invalidate = Segmenter { invalidate: Some(9), ..send(3) };
        assert_eq!(opcodes(&cut(invalidate, &[3])), [O::RC_SEND_ONLY_INVALIDATE]);
        let response = opcodes(&cut(kind(MessageKind::Response, 700), &[700]));
        assert_eq!(response, [O::RC_READ_RESPONSE_FIRST, O::RC_READ_RESPONSE_MIDDLE, O::RC_READ_RESPONSE_LAST]);
    }

    #[test]
    fn bytes_that_are_gone_end_it() {
        let mut packets = 0;
        let mut read = |at: u32, _: &mut [u8]| at < 256;
        let fed = send(600).feed(PayloadSource { len_bytes: 600, read: &mut read }, &mut |_, _, _| packets += 1);
        assert_eq!((fed, packets), (false, 1));
    }
}
