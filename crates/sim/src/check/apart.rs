//! Splits a request that carries an ACK into the two packets that it stands for.

use wire::{Bth, Extensions, Opcode, Packet};

/// The ACK and the request, BTH to pad; `None` if the packet is not both.
pub(crate) fn apart(packet: &Packet<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let along = packet.piggyback()?;
    let (mut acknowledge, mut request) = (Vec::new(), Vec::new());
    let bth = Bth { opcode: Opcode::RC_ACKNOWLEDGE, psn: along.psn, solicited: false, ack_req: false, ..packet.bth() };
    Extensions { aeth: Some(along.aeth), ..Extensions::default() }.encode_packet(&bth, &[], &mut acknowledge);
    let bth = Bth { opcode: packet.opcode().without_acknowledge()?, ..packet.bth() };
    let headers = Extensions { piggyback: None, cookie: None, ..packet.extensions() };
    headers.encode_packet(&bth, packet.payload(), &mut request);
    Some((acknowledge, request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Aeth, Piggyback, Psn, Syndrome};

    #[test]
    fn both_halves_are_what_they_would_be_alone() {
        let along = Piggyback { aeth: Aeth { syndrome: Syndrome::ack(3), msn: 4 }, psn: Psn::new(5) };
        let bth = Bth { opcode: Opcode::SEND_ONLY_IMM_ACK, psn: Psn::new(6), ack_req: true, ..Bth::default() };
        let headers = Extensions {
            imm: Some(wire::ImmDt(7)),
            piggyback: Some(along),
            cookie: Some(wire::Cookie(8)),
            ..Extensions::default()
        };
        let mut bytes = Vec::new();
        headers.encode_packet(&bth, b"hello", &mut bytes);
        let (acknowledge, request) = apart(&Packet::parse(&bytes).unwrap()).unwrap();
        let (acknowledge, request) = (Packet::parse(&acknowledge).unwrap(), Packet::parse(&request).unwrap());
        assert_eq!((acknowledge.opcode(), acknowledge.psn()), (Opcode::RC_ACKNOWLEDGE, Psn::new(5)));
        assert_eq!(acknowledge.aeth(), Some(along.aeth));
        assert_eq!((request.opcode(), request.psn(), request.imm()), (Opcode::RC_SEND_ONLY_IMM, Psn::new(6), Some(7)));
        assert_eq!((request.payload(), request.bth().ack_req), (&b"hello"[..], true));
        assert!(apart(&request).is_none());
    }
}
