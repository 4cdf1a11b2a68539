//! What packets are written on, and what all those of one direction have in common.

use wire::{Bth, Extensions, Opcode, PKey, Psn, Qpn};

use super::Bytes;
use super::message::Message;
use super::single::Single;

/// The bits that make an opcode of RC one of UC.
const UC_OPCODE_BITS: u8 = Opcode::UC_SEND_FIRST.0;
/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Request,
    Answer,
}

pub(super) type Out<'a> = dyn FnMut(Way, &[u8], Option<&'static str>) + 'a;
/// What packets are written on.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) is_reliable: bool,
    pub(super) requester: Qpn,
    pub(super) responder: Qpn,
    pub(super) pkey: PKey,
    pub(super) packet: Vec<u8>,
}

impl Sheet {
    pub(super) fn feed(&mut self, message: &mut Message, bytes: Bytes<'_>, way: Way, out: &mut Out<'_>) -> bool {
        message.feed(bytes, &mut |bth, extensions, payload| {
            let bth = Bth { ack_req: bth.ack_req && self.is_reliable, ..bth };
            self.write(bth, extensions, payload, way, out);
        })
    }

    pub(super) fn single(&mut self, single: &Single, psn: Psn, out: &mut Out<'_>) {
        let payload = single.payload.as_ref().map_or(&[][..], |value| value);
        let bth = Bth { opcode: single.opcode, psn, ack_req: true, ..Bth::default() };
        self.write(bth, &single.extensions, payload, Way::Request, out);
    }

    pub(super) fn write(&mut self, bth: Bth, extensions: &Extensions, payload: &[u8], way: Way, out: &mut Out<'_>) {
        let bth = Bth {
            opcode: Opcode(bth.opcode.0 | if self.is_reliable { 0 } else { UC_OPCODE_BITS }),
            pkey: self.pkey,
            dest_qpn: if way == Way::Request { self.responder } else { self.requester },
            ..bth
        };
        self.packet.clear();
        extensions.encode_packet(&bth, payload, &mut self.packet);
        out(way, &self.packet, None);
    }
}
