//! Answers to messages without a connection or listener. They need no state.

use wire::mad::{
    self, Apr, CmMessage, Drep, MAD_LEN, MadHeader, Rej, Rejected, SidrRep, apr_status, reason, sidr_status,
};
use wire::{QKey, Qpn};

/// The answer to a MAD without a connection or listener, for the MAD's sender.
///
/// REQ, REP and RTU are rejected, a DREQ is agreed to, LAP and SIDR_REQ are answered with an error. Everything
/// else gets no answer, so that two ends never refuse each other's refusals.
pub fn refuse(mad: &[u8; MAD_LEN]) -> Option<[u8; MAD_LEN]> {
    let (header, message) = mad::decode(mad).ok()?;
    let answer = answer(&message)?;
    let header = MadHeader { transaction_id: header.transaction_id, ..MadHeader::default() };
    Some(mad::encode(&header, &answer))
}

fn answer(message: &CmMessage) -> Option<CmMessage> {
    let answer = match message {
        CmMessage::Req(req) => CmMessage::Rej(rej(0, req.local_id, Rejected::REQ, reason::INVALID_SERVICE_ID)),
        CmMessage::Rep(rep) => CmMessage::Rej(rej(rep.remote_id, rep.local_id, Rejected::REP, reason::INVALID_COMM_ID)),
        // The sender takes the connection for established.
        CmMessage::Rtu(rtu) => {
            CmMessage::Rej(rej(rtu.remote_id, rtu.local_id, Rejected::OTHER, reason::INVALID_COMM_ID))
        }
        CmMessage::Dreq(dreq) => CmMessage::Drep(Drep {
            local_id: dreq.remote_id,
            remote_id: dreq.local_id,
            private_data: [0; Drep::PRIVATE_LEN],
        }),
        CmMessage::Lap(lap) => CmMessage::Apr(apr(lap.remote_id, lap.local_id, apr_status::INVALID_COMM_ID)),
        CmMessage::SidrReq(req) => CmMessage::SidrRep(SidrRep {
            request_id: req.request_id,
            status: sidr_status::UNSUPPORTED,
            info_len: 0,
            vendor_id: 0,
            qpn: Qpn::new(0),
            service_id: req.service_id,
            qkey: QKey(0),
            info: [0; SidrRep::INFO_LEN],
            private_data: [0; SidrRep::PRIVATE_LEN],
        }),
        CmMessage::Mra(_) | CmMessage::Rej(_) | CmMessage::Drep(_) | CmMessage::SidrRep(_) | CmMessage::Apr(_) => {
            return None;
        }
    };
    Some(answer)
}

/// A REJ without information or private data.
pub(crate) fn rej(local_id: u32, remote_id: u32, rejected: Rejected, reason: u16) -> Rej {
    Rej {
        local_id,
        remote_id,
        rejected,
        info_len: 0,
        reason,
        info: [0; Rej::INFO_LEN],
        private_data: [0; Rej::PRIVATE_LEN],
    }
}

/// An APR without information or private data.
pub(crate) fn apr(local_id: u32, remote_id: u32, status: u8) -> Apr {
    Apr { local_id, remote_id, info_len: 0, status, info: [0; Apr::INFO_LEN], private_data: [0; Apr::PRIVATE_LEN] }
}
