//! Writes packets with the fields that all those of one direction share.

use wire::{Bth, Extensions, Opcode, PKey, Psn, Qpn};

use super::payload::PayloadSource;
use super::segmenter::Segmenter;
use super::single_request::SingleRequest;

/// The bits that make an opcode of RC one of UC.
const UC_OPCODE_BITS: u8 = Opcode::UC_SEND_FIRST.0;
/// The role of a packet: from the requester, or from the responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PacketRole {
    Request,
    Response,
}

pub(super) type RoleSink<'a> = dyn FnMut(PacketRole, &[u8], Option<&'static str>) + 'a;
/// Writes the packets of one direction into one buffer.
#[derive(Debug)]
pub(super) struct PacketWriter {
    pub(super) is_reliable: bool,
    pub(super) requester: Qpn,
    pub(super) responder: Qpn,
    pub(super) pkey: PKey,
    pub(super) packet: Vec<u8>,
}

impl PacketWriter {
    pub(super) fn feed(
        &mut self,
        message: &mut Segmenter,
        bytes: PayloadSource<'_>,
        role: PacketRole,
        out: &mut RoleSink<'_>,
    ) -> bool {
        message.feed(bytes, &mut |bth, extensions, payload| {
            let bth = Bth { ack_req: bth.ack_req && self.is_reliable, ..bth };
            self.write(bth, extensions, payload, role, out);
        })
    }

    pub(super) fn single(&mut self, single: &SingleRequest, psn: Psn, out: &mut RoleSink<'_>) {
        let payload = single.payload.as_ref().map_or(&[][..], |value| value);
        let bth = Bth { opcode: single.opcode, psn, ack_req: true, ..Bth::default() };
        self.write(bth, &single.extensions, payload, PacketRole::Request, out);
    }

    pub(super) fn write(
        &mut self,
        bth: Bth,
        extensions: &Extensions,
        payload: &[u8],
        role: PacketRole,
        out: &mut RoleSink<'_>,
    ) {
        let bth = Bth {
            opcode: Opcode(bth.opcode.0 | if self.is_reliable { 0 } else { UC_OPCODE_BITS }),
            pkey: self.pkey,
            dest_qpn: if role == PacketRole::Request { self.responder } else { self.requester },
            ..bth
        };
        self.packet.clear();
        extensions.encode_packet(&bth, payload, &mut self.packet);
        out(role, &self.packet, None);
    }
}
