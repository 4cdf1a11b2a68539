//! The recipient and the sender of a MAD, as far as the MAD itself names them.

use wire::mad::{self, CmMessage, reason};

/// The receiver of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// The process with this number.
    Number(u16),
    /// The process that listens on this port of this space: space, then port.
    Port(u16, u16),
    /// Any process may know the connection: the peer gave up before it learnt our communication id.
    Anybody,
    Nobody,
}

/// The high bits of a communication id are its process's number.
const NUMBER_SHIFT: u32 = 20;

/// The recipient by the communication id in a message, or by its service id.
pub(super) fn of(message: &CmMessage) -> Recipient {
    match message {
        CmMessage::Req(req) => port_of(req.service_id),
        CmMessage::SidrReq(req) => port_of(req.service_id),
        CmMessage::Rej(rej) if rej.remote_id == 0 && rej.reason == reason::TIMEOUT => Recipient::Anybody,
        other => match other.receiver_id().map_or(0, |id| (id >> NUMBER_SHIFT) as u16) {
            0 => Recipient::Nobody,
            number => Recipient::Number(number),
        },
    }
}

/// The number of the process that sent a request, by the communication id that it chose.
pub(super) fn sender(mad: &[u8; 256]) -> Option<u16> {
    let (_, message) = mad::decode(mad).ok()?;
    let id = match message {
        CmMessage::Req(req) => req.local_id,
        CmMessage::SidrReq(req) => req.request_id,
        _ => return None,
    };
    Some((id >> NUMBER_SHIFT) as u16)
}

/// IP-based service ids are a port space and a port (IB specification A11).
fn port_of(service_id: u64) -> Recipient {
    match u16::try_from(service_id >> 16) {
        Ok(space) => Recipient::Port(space, service_id as u16),
        Err(_) => Recipient::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mad::{Drep, Rtu};

    #[test]
    fn service_ids_are_ports() {
        assert_eq!(port_of(0x0106_1c06), Recipient::Port(0x0106, 7174));
        assert_eq!(port_of(0x0002_ffff), Recipient::Port(2, 0xffff));
        assert_eq!(port_of(0), Recipient::Port(0, 0));
        assert_eq!(port_of(0x1_0106_1c06), Recipient::Nobody);
        assert_eq!(port_of(u64::MAX), Recipient::Nobody);
    }

    #[test]
    fn communication_ids_name_their_process() {
        let rtu = |remote_id| CmMessage::Rtu(Rtu { local_id: 7, remote_id, private_data: [0; Rtu::PRIVATE_LEN] });
        assert_eq!(of(&rtu(0xfff0_0001)), Recipient::Number(4095));
        assert_eq!(of(&rtu(0x001f_ffff)), Recipient::Number(1));
        assert_eq!(of(&rtu(0x000f_ffff)), Recipient::Nobody);
        let drep = Drep { local_id: 1 << 20, remote_id: 2 << 20, private_data: [0; Drep::PRIVATE_LEN] };
        assert_eq!(of(&CmMessage::Drep(drep)), Recipient::Number(2));
    }
}
