//! Compile-time checks of the opcode table: rules that hold across rows, so that an
//! error in one row does not compile.

use super::table::{BUILT, ROWS};
use super::{HeaderSet, OpcodeInfo, Operation, Position, TransportService};

const _: () = check_table();

const fn check_table() {
    let mut rows = 0;
    let mut code = 0;
    while code < BUILT.len() {
        if let Some(info) = &BUILT[code] {
            check_row(info);
            check_against_rc(code, info);
            rows += 1;
        }
        code += 1;
    }
    assert!(rows == ROWS, "a row is lost");
}

/// Checks the headers of an operation at its position.
const fn check_row(info: &OpcodeInfo) {
    let headers = info.headers;
    let starts = info.starts_message();
    let ends = info.ends_message();

    let always = matches!(info.operation, Operation::ReadRequest | Operation::Flush | Operation::AtomicWrite)
        || info.is_extension();
    let reth = always || matches!(info.operation, Operation::Write) && starts;
    assert!(headers.contains(HeaderSet::RETH) == reth);

    let flush = matches!(info.operation, Operation::Flush);
    assert!(headers.contains(HeaderSet::FETH) == flush);

    let atomic = matches!(info.operation, Operation::CompareSwap | Operation::FetchAdd);
    assert!(headers.contains(HeaderSet::ATOMIC_ETH) == atomic);

    let aeth = info.is_response() && !matches!(info.position, Position::Middle);
    assert!(headers.contains(HeaderSet::AETH) == aeth);

    let atomic_ack = matches!(info.operation, Operation::AtomicAcknowledge);
    assert!(headers.contains(HeaderSet::ATOMIC_ACK) == atomic_ack);

    let object_read = matches!(info.operation, Operation::ObjectRead);
    assert!(headers.contains(HeaderSet::OBJECT) == object_read);

    let reply = matches!(info.operation, Operation::Reply);
    assert!(headers.contains(HeaderSet::REPLY) == reply);

    if headers.contains(HeaderSet::IMM) {
        assert!(ends && matches!(info.operation, Operation::Send | Operation::Write));
    }
    if headers.contains(HeaderSet::IETH) {
        assert!(ends && matches!(info.operation, Operation::Send));
        assert!(!headers.contains(HeaderSet::IMM));
    }
    if !info.payload {
        assert!(starts && ends, "without payload there is nothing to segment");
    }
    check_service(info);
}

/// Checks the headers that a service adds, and its operations.
const fn check_service(info: &OpcodeInfo) {
    let ud = matches!(info.service, TransportService::Ud);
    assert!(info.headers.contains(HeaderSet::DETH) == ud);
    let xrc_request = matches!(info.service, TransportService::Xrc) && info.is_request();
    assert!(info.headers.contains(HeaderSet::XRCETH) == xrc_request);
    let cnp = matches!(info.service, TransportService::Cnp);
    assert!(info.headers.contains(HeaderSet::CNP) == cnp);
    assert!(matches!(info.operation, Operation::Cnp) == cnp);
    let own = matches!(info.service, TransportService::Own);
    let selective = matches!(info.operation, Operation::SelectiveAcknowledge);
    assert!(info.headers.contains(HeaderSet::SACK) == selective);
    let extension = info.is_extension() || matches!(info.operation, Operation::Reply);
    assert!(own || !selective && !extension);
    assert!(info.headers.contains(HeaderSet::PIGGYBACK) == (own && info.is_request() && !extension));
    // The others carry the mark, as ordinary requests and responses do.
    assert!(info.headers.contains(HeaderSet::COOKIE) == (own && !extension));

    match info.service {
        TransportService::Rc | TransportService::Xrc | TransportService::Cnp | TransportService::Own => {}
        TransportService::Uc => assert!(matches!(info.operation, Operation::Send | Operation::Write)),
        TransportService::Ud => assert!(matches!(info.operation, Operation::Send)),
        TransportService::Rd => panic!("RD is not supported"),
    }
}

/// Checks that the low five bits mean the same in every service, up to the service's own header.
const fn check_against_rc(code: usize, info: &OpcodeInfo) {
    if matches!(info.service, TransportService::Cnp)
        || matches!(info.service, TransportService::Own) && (info.is_response() || info.is_extension())
    {
        return;
    }
    let Some(rc) = &BUILT[code & 0x1f] else { panic!("every operation exists for RC") };
    assert!(rc.operation as u8 == info.operation as u8);
    assert!(rc.position as u8 == info.position as u8);
    assert!(rc.payload == info.payload);
    assert!(rc.uses_recv_wqe == info.uses_recv_wqe);
    let own = HeaderSet::DETH.union(HeaderSet::XRCETH).union(HeaderSet::PIGGYBACK).union(HeaderSet::COOKIE);
    assert!(rc.headers.bits() == info.headers.difference(own).bits());
    if matches!(info.service, TransportService::Rc) {
        assert!(BUILT[code | 0xa0].is_some(), "XRC has every opcode of RC");
    }
}
