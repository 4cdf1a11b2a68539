//! Calls that the owner's engine carries out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use transport::{CallBuffers, CompletionOp, Payload, QpType, SendOp, SendWr, Status};

use super::rig::*;

/// A node with a counter for a handler, which replies with the count and the request.
fn served(node: &Node) -> Arc<AtomicU64> {
    let executed = Arc::new(AtomicU64::new(0));
    let count = executed.clone();
    let handler = move |call: &memory::RemoteCall<'_>, reply: &mut transport::ReplyBytes| {
        let before = count.fetch_add(1, SeqCst);
        assert!(call.request != b"panic", "a test of panics");
        assert!(reply.append(&before.to_ne_bytes()) && reply.append(call.request));
    };
    node.mr.serve_calls(Box::new(handler)).unwrap();
    executed
}

fn call(node: &Node, to: &Node, wr_id: u64, request: &[u8], len: usize) {
    let call = CallBuffers { request: request.into(), reply: [node.sge(0, len)].into_iter().collect() };
    let wr = node.send_wr(wr_id, SendOp::Call(to.remote(8)), 0, len);
    node.qp.post_send([SendWr { payload: Payload::Call(Box::new(call)), ..wr }]).unwrap();
}

#[test]
pub(super) fn calls_are_executed_while_the_owner_is_away() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let executed = served(&b);
        for round in 0..500u64 {
            let request = pattern(round as usize, (round % 200) as usize);
            call(&a, &b, round, &request, 300);
            let done = a.sent();
            let expected = (round, CompletionOp::Call, 8 + request.len() as u32);
            assert_eq!((done.wr_id, done.op, done.byte_len), expected);
            assert_eq!((a.read(0, 8), a.read(8, request.len())), (round.to_ne_bytes().to_vec(), request));
        }
        assert_eq!(executed.load(SeqCst), 500);
    });
}

#[test]
pub(super) fn a_panic_ends_the_connection_and_nothing_else() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let executed = served(&b);
        call(&a, &b, 1, b"panic", 64);
        assert_eq!(next(&a.send_cq).status, Status::RemoteOperation);
        wait_until("the owner's queue pair has failed", || b.qp.failure() == Some(transport::Reason::CallPanicked));
        assert_eq!(executed.load(SeqCst), 1);
        b.mr.stop_calls();
        assert!(Arc::strong_count(&executed) == 1, "the handler is gone");
    });
}

#[test]
pub(super) fn without_a_handler_calls_are_refused() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        call(&a, &b, 1, b"", 64);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
    });
}
