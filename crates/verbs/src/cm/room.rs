//! The room for private data in the messages of the connection manager (IB specification 12.6, 12.11).
//!
//! iWARP has room for more and sends no zeros behind the data. The same limits hold there, so that programs need not
//! tell the devices apart.

use connect::{Error, EventKind};
use transport::QpType;
use wire::mad::{Rej, Rep, Req, SidrRep, SidrReq};

/// The header with the caller's address, before the data of a request (IB specification A11).
const IP_HEADER_BYTES: usize = 36;

/// The room in a request.
pub(super) fn of_request(qp_type: QpType) -> usize {
    let message = if qp_type == QpType::Ud { SidrReq::PRIVATE_LEN } else { Req::PRIVATE_LEN };
    message - IP_HEADER_BYTES
}

/// The room in an answer that accepts.
pub(super) fn of_accept(qp_type: QpType) -> usize {
    if qp_type == QpType::Ud { SidrRep::PRIVATE_LEN } else { Rep::PRIVATE_LEN }
}

/// The room in an answer that refuses.
pub(super) fn of_reject(qp_type: QpType) -> usize {
    if qp_type == QpType::Ud { SidrRep::PRIVATE_LEN } else { Rej::PRIVATE_LEN }
}

/// The private data of an event, with zeros behind as far as the message has room.
pub(super) fn fill(mut private_data: Vec<u8>, kind: EventKind, qp_type: QpType) -> Vec<u8> {
    let room = match kind {
        EventKind::ConnectRequest => of_request(qp_type),
        EventKind::ConnectResponse | EventKind::Established => of_accept(qp_type),
        EventKind::Rejected => of_reject(qp_type),
        _ => 0,
    };
    private_data.resize(private_data.len().max(room), 0);
    private_data
}

/// Refuses more private data than there is room for.
pub(super) fn check(private_data: &[u8], max: usize) -> Result<(), Error> {
    let asked = private_data.len();
    if asked <= max { Ok(()) } else { Err(Error::PrivateData { asked, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rooms_are_those_of_the_crate_connect() {
        let rooms = |qp_type| [of_request(qp_type), of_accept(qp_type), of_reject(qp_type)];
        assert_eq!(rooms(QpType::Rc), [56, 196, 148]);
        assert_eq!(rooms(QpType::Ud), [180, 136, 136]);
        assert!(check(&[0; 56], 56).is_ok());
        assert!(matches!(check(&[0; 57], 56), Err(Error::PrivateData { asked: 57, max: 56 })));
    }

    #[test]
    fn zeros_fill_the_room_and_nothing_is_cut() {
        let request = fill(b"hello".to_vec(), EventKind::ConnectRequest, QpType::Rc);
        assert_eq!((&request[..5], request.len()), (&b"hello"[..], 56));
        assert_eq!(fill(vec![1; 224], EventKind::Established, QpType::Rc), [1; 224]);
        assert!(fill(Vec::new(), EventKind::Disconnected, QpType::Rc).is_empty());
    }
}
