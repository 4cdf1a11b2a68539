//! Queue pairs that wait in line for room.

use transport::QpType;

use super::rig::{Node, Setup, on_loopback, pair};
use crate::schedule::stalled::Stalled;
use crate::shm::lane::LaneWait;

/// The second thread finds the line empty, and must not remove it: the first one puts the rest of its waiters back.
#[test]
fn waiters_keep_their_line_while_two_threads_serve_it() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let entry = |node: &Node| node.device.engine().services.slots.qp(node.qp.qpn()).unwrap();
        let (stalled, wait) = (Stalled::default(), LaneWait::Link(7));
        assert!([&a, &b].iter().all(|node| stalled.stall(&entry(node), &wait)));
        let mut served = Vec::new();
        stalled.serve(|first| {
            stalled.serve(|_| unreachable!("the first thread has taken all waiters"));
            served.push(first.qpn());
            false
        });
        assert!(!stalled.is_empty() && entry(&b).state().is_stalled());
        stalled.serve(|next| {
            served.push(next.qpn());
            true
        });
        assert_eq!(served, [a.qp.qpn(), b.qp.qpn()]);
        assert!(stalled.is_empty());
    });
}
