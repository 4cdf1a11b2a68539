//! Buffers of a shared receive queue belong to its own protection domain.

use smallvec::smallvec;
use transport::{Access, QpType, RecvWr, SendOp, Sge, Status};

use super::rig::*;
use crate::handles::mr::Mr;
use crate::testing;

const LEN: usize = 256;

fn sge(mr: &Mr) -> Sge {
    Sge { addr: mr.addr(), len_bytes: LEN as u32, lkey: mr.lkey() }
}

/// Sends one message into a buffer of the queue's domain, or of the queue pair's. Returns the status of the receive.
fn received_into(qp_type: QpType, of_queue: bool) -> Status {
    let mut status = Status::Fatal;
    on_loopback(|group| {
        let (shm, far) = (testing::open(group, 1, "lo"), testing::open(group, 2, "lo"));
        let setup = Setup::new(qp_type);
        let (qp_pd, srq_pd) = (far.alloc_pd().unwrap(), far.alloc_pd().unwrap());
        let srq = far.create_srq(&srq_pd, 4, 1, 0).unwrap();
        let cqs = (far.create_cq(16, None, 1).unwrap(), far.create_cq(16, None, 2).unwrap());
        let b = Node::with(far, setup, &qp_pd, cqs, Some(&srq));
        let a = Node::new(shm, setup);
        link(&a, &b);
        let pd = if of_queue { &srq_pd } else { &qp_pd };
        let buffer = pd.allocate(LEN, Access::LOCAL_WRITE).unwrap();
        srq.post([RecvWr { wr_id: 7, sgl: smallvec![sge(&buffer)] }]).unwrap();
        let mut wr = a.send_wr(1, SendOp::Send, 0, 64);
        wr.datagram = (qp_type == QpType::Ud).then(|| Box::new(a.datagram_to(b.gid, b.qp.qpn())));
        a.qp.post_send([wr]).unwrap();
        let completion = b.received();
        assert_eq!(completion.wr_id, 7);
        status = completion.status;
    });
    status
}

/// The domain of the queue pair is not used, neither for RC nor for UC nor for UD.
#[test]
pub(super) fn buffers_lie_in_the_domain_of_the_shared_queue() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        assert_eq!(received_into(qp_type, true), Status::Success, "{qp_type:?}");
        assert_eq!(received_into(qp_type, false), Status::LocalProtection, "{qp_type:?}");
    }
}
