//! A message of the connection manager as a list of named fields. The list omits addresses, and numbers that
//! differ for each connection (communication and transaction ids, queue pairs, PSNs, GUIDs).

use std::fmt::Debug;

use wire::mad::{self, CmMessage, MAD_LEN, PathFields};

use crate::fields::Field;

/// The RDMA IP CM header before a program's private data (IB specification, Annex A11).
const IP_HEADER_LEN: usize = 36;
/// Number of compared bytes of a program's private data: rsockets send version, flags and credits, then keys.
const PRIVATE_LEN: usize = 8;

/// The message's name, and its fields.
pub(crate) fn fields(bytes: &[u8; MAD_LEN]) -> Vec<Field> {
    let Ok((header, message)) = mad::decode(bytes) else { return vec![field("MAD", &"unknown")] };
    let mut fields = vec![
        field("MAD status", &header.status),
        field("MAD class specific", &header.class_specific),
        field("MAD attribute modifier", &header.modifier),
    ];
    let (name, own) = match &message {
        CmMessage::Req(req) => ("REQ", request(req)),
        CmMessage::Rep(rep) => ("REP", reply(rep)),
        CmMessage::Rtu(rtu) => ("RTU", private(&rtu.private_data, 0)),
        CmMessage::Dreq(dreq) => ("DREQ", private(&dreq.private_data, 0)),
        CmMessage::Drep(drep) => ("DREP", private(&drep.private_data, 0)),
        CmMessage::Rej(rej) => ("REJ", rejection(rej)),
        CmMessage::SidrReq(req) => ("SIDR_REQ", lookup(req)),
        CmMessage::SidrRep(rep) => ("SIDR_REP", found(rep)),
        CmMessage::Mra(mra) => ("MRA", vec![field("service timeout", &mra.service_timeout)]),
        CmMessage::Lap(_) => ("LAP", Vec::new()),
        CmMessage::Apr(_) => ("APR", Vec::new()),
    };
    fields.push(("MAD", name.to_owned()));
    fields.extend(own);
    fields
}

fn request(req: &mad::Req) -> Vec<Field> {
    let mut fields = vec![
        ("service id", format!("{:#x}", req.service_id)),
        field("vendor id", &req.vendor_id),
        field("Q_Key in the message", &req.qkey),
        field("responder resources", &req.responder_resources),
        field("initiator depth", &req.initiator_depth),
        field("EECNs", &(req.eecn, req.remote_eecn)),
        field("remote response timeout", &req.remote_response_timeout),
        field("local response timeout", &req.local_response_timeout),
        field("transport service", &req.transport),
        field("end-to-end flow control", &req.flow_control),
        field("retry count", &req.retry_count),
        field("RNR retry count", &req.rnr_retry_count),
        field("P_Key in the message", &req.pkey),
        field("path MTU", &req.mtu),
        field("RDC exists", &req.rdc_exists),
        field("CM retries", &req.max_cm_retries),
        field("SRQ", &req.srq),
    ];
    fields.extend(path(&req.primary));
    fields.push(field("alternate path", &(req.alternate != PathFields::default())));
    fields.push(field("IP CM header", &&req.private_data[..2]));
    fields.extend(private(&req.private_data, IP_HEADER_LEN));
    fields
}

fn path(path: &PathFields) -> Vec<Field> {
    vec![
        field("LIDs", &(path.local_lid, path.remote_lid)),
        field("packet rate", &path.packet_rate),
        field("traffic class", &path.traffic_class),
        field("hop limit of the path", &path.hop_limit),
        field("service level", &path.service_level),
        field("subnet local", &path.subnet_local),
        field("local acknowledge timeout", &path.local_ack_timeout),
    ]
}

fn reply(rep: &mad::Rep) -> Vec<Field> {
    let mut fields = vec![
        field("vendor id", &rep.vendor_id),
        field("Q_Key in the message", &rep.qkey),
        field("responder resources", &rep.responder_resources),
        field("initiator depth", &rep.initiator_depth),
        field("EECNs", &rep.eecn),
        field("target acknowledge delay", &rep.target_ack_delay),
        field("failover accepted", &rep.failover_accepted),
        field("end-to-end flow control", &rep.flow_control),
        field("RNR retry count", &rep.rnr_retry_count),
        field("SRQ", &rep.srq),
    ];
    fields.extend(private(&rep.private_data, 0));
    fields
}

fn rejection(rej: &mad::Rej) -> Vec<Field> {
    let mut fields = vec![field("reason", &rej.reason), field("rejected", &rej.rejected)];
    fields.extend(private(&rej.private_data, 0));
    fields
}

fn lookup(req: &mad::SidrReq) -> Vec<Field> {
    let mut fields = vec![
        ("service id", format!("{:#x}", req.service_id)),
        field("P_Key in the message", &req.pkey),
        field("IP CM header", &&req.private_data[..2]),
    ];
    fields.extend(private(&req.private_data, IP_HEADER_LEN));
    fields
}

fn found(rep: &mad::SidrRep) -> Vec<Field> {
    let mut fields = vec![
        ("service id", format!("{:#x}", rep.service_id)),
        field("SIDR status", &rep.status),
        field("vendor id", &rep.vendor_id),
        field("Q_Key in the message", &rep.qkey),
        field("additional information", &(rep.info_len, rep.info.iter().any(|byte| *byte != 0))),
    ];
    fields.extend(private(&rep.private_data, 0));
    fields
}

/// The beginning of the program's own private data.
fn private(data: &[u8], from: usize) -> Vec<Field> {
    vec![field("private data", &&data[from..from + PRIVATE_LEN])]
}

fn field(name: &'static str, value: &dyn Debug) -> Field {
    (name, format!("{value:?}"))
}
