//! Lifetimes of objects: parents, busy objects, destroyed objects, and dead peers.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use transport::{Access, AttrMask, BindMw, QpAttr, QpState, QpType, Reason, SendFlags, SendOp, Status};
use wire::{Gid, Qpn, RKey};

use super::rig::*;
use crate::{CqError, Error, MwType, testing};

#[test]
fn parents_are_busy_while_children_exist() {
    on_loopback(|group| {
        let (a, _b) = pair(group, Setup::new(QpType::Rc));
        let busy = |result: Result<(), Error>| matches!(result, Err(Error::Busy { .. }));
        let srq = a.device.create_srq(&a.pd, 10, 1, 0).unwrap();
        assert!(busy(a.pd.destroy()) && busy(a.send_cq.destroy()) && busy(a.recv_cq.destroy()));
        a.qp.destroy().unwrap();
        a.send_cq.destroy().unwrap();
        a.recv_cq.destroy().unwrap();
        assert!(busy(a.pd.destroy()), "it has a region and a shared receive queue");
        srq.destroy().unwrap();
        drop(a.mr.clone());
        assert!(busy(a.pd.destroy()));
        let (pd, mr) = (a.pd.clone(), a.mr.clone());
        drop((a, mr));
        pd.destroy().unwrap();
    });
}

#[test]
fn destroyed_objects_refuse() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.qp.destroy().unwrap();
        assert!(matches!(a.qp.destroy(), Err(Error::Destroyed(_))));
        let post = a.qp.post_send([a.send_wr(1, SendOp::Write(b.remote(0)), 0, 8)]);
        assert!(matches!(post.unwrap_err().error, Error::Destroyed(_)));
        assert_eq!((a.qp.state(), a.qp.failure()), (QpState::Reset, None));
        a.send_cq.destroy().unwrap();
        assert_eq!(a.send_cq.poll(&mut Vec::new(), 1), Err(CqError::Destroyed));
        a.mr.deregister().unwrap();
        assert!(matches!(a.mr.deregister(), Err(Error::Destroyed(_))));
    });
}

/// The receiver ACKs a message also if its queue pair is destroyed right after it.
#[test]
pub(super) fn the_last_message_of_a_queue_pair_is_acknowledged() {
    on_loopback(|group| {
        for round in 0..20 {
            let (a, b) = pair(group, Setup::new(QpType::Rc));
            b.post_recv(1, 0, 64);
            a.send(2, SendOp::Send, 0, 64);
            assert_eq!(b.received().status, Status::Success);
            match round % 2 {
                0 => b.qp.destroy().unwrap(),
                _ => b.qp.modify(&QpAttr { state: QpState::Error, ..QpAttr::default() }, AttrMask::STATE).unwrap(),
            }
            let completion = next(&a.send_cq);
            let (ours, theirs) = (a.device.counters(), b.device.counters());
            assert_eq!(completion.status, Status::Success, "round {round}: {ours:?}; {theirs:?}");
        }
    });
}

/// A thread that has built packets and completed their requests may be stopped before they leave. They must not go
/// with the process that has seen the completion.
#[test]
fn a_queue_pair_goes_after_its_built_packets() {
    on_loopback(|group| {
        for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
            let (a, _b) = pair(group, Setup::new(qp_type));
            let entry = a.device.engine().services.slots.qp(a.qp.qpn()).unwrap();
            assert!(entry.state().take_send_right(), "we are that thread");
            let has_left = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    has_left.store(true, SeqCst);
                    entry.state().release_send_right();
                });
                a.qp.destroy().unwrap();
                assert!(has_left.load(SeqCst), "{qp_type:?}");
            });
        }
    });
}

#[test]
fn requests_without_a_completion_leave_before_their_queue_pair_goes() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Ud));
        for id in 0..40 {
            b.post_recv(id, 64 * id as usize, 64);
        }
        for _ in 0..40 {
            let mut wr = a.send_wr(1, SendOp::Send, 0, 8);
            wr.datagram = Some(Box::new(a.datagram_to(b.gid, b.qp.qpn())));
            wr.flags = SendFlags::empty();
            a.qp.post_send([wr]).unwrap();
        }
        a.qp.destroy().unwrap();
        for _ in 0..40 {
            assert_eq!(b.received().status, Status::Success);
        }
    });
}

#[test]
pub(super) fn children_keep_their_parents() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let (qp, cq, wr) = (a.qp.clone(), a.send_cq.clone(), a.send_wr(1, SendOp::Write(b.remote(0)), 0, 8));
        let mr = a.mr.clone();
        drop(a);
        qp.post_send([wr]).unwrap();
        assert_eq!(next(&cq).status, Status::Success);
        drop(mr);
    });
}

#[test]
pub(super) fn a_dead_region_is_dead_for_peers() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let remote = b.remote(0);
        b.mr.deregister().unwrap();
        a.send(1, SendOp::Write(remote), 0, 8);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
    });
}

#[test]
pub(super) fn a_region_with_a_window_outlives_its_handle() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let mr = b.pd.allocate(4096, ALL_ACCESS | Access::MW_BIND).unwrap();
        let mw = b.pd.alloc_mw(MwType::One).unwrap();
        let new_rkey = RKey(mw.rkey().0 ^ 1);
        let bind = BindMw {
            window: mw.rkey(),
            new_rkey,
            region: mr.lkey(),
            addr: mr.addr(),
            len_bytes: 64,
            access: Access::REMOTE_WRITE,
        };
        b.send(1, SendOp::Bind(bind), 0, 0);
        b.sent();
        assert_eq!(mw.rkey(), new_rkey);
        assert_eq!(mr.deregister().unwrap_err().errno(), libc::EBUSY);
        let remote = transport::RemoteAddr { addr: mr.addr(), rkey: new_rkey };
        drop(mr);
        a.send(1, SendOp::Write(remote), 0, 64);
        assert_eq!(a.sent().wr_id, 1, "the window is open, and the memory is there");
        drop(mw);
        a.send(2, SendOp::Write(remote), 0, 64);
        assert_eq!(next(&a.send_cq).status, Status::RemoteAccess);
    });
}

#[test]
fn objects_of_two_devices_do_not_mix() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let spec = crate::QpSpec {
            qp_type: QpType::Rc,
            pd: &b.pd,
            send_cq: &a.send_cq,
            recv_cq: &a.recv_cq,
            srq: None,
            caps: CAPS,
            signal_all: false,
        };
        assert!(matches!(a.device.create_qp(&spec), Err(Error::OtherDevice(_))));
        let channel = b.device.create_channel().unwrap();
        assert!(matches!(a.device.create_cq(1, Some(&channel), 0), Err(Error::OtherDevice(_))));
    });
}

#[test]
fn limits_are_checked_first() {
    on_loopback(|group| {
        let a = Node::new(testing::open(group, 1, "lo"), Setup::new(QpType::Rc));
        let limits = a.device.limits();
        assert!(matches!(a.device.create_cq(limits.max_cqe + 1, None, 0), Err(Error::Limit { .. })));
        assert!(matches!(a.device.create_cq(0, None, 0), Err(Error::Invalid(_))));
        assert!(matches!(a.device.create_srq(&a.pd, limits.max_srq_wr + 1, 1, 0), Err(Error::Limit { .. })));
    });
}

/// The process can have exactly as many objects as the limits say.
#[test]
fn the_limits_hold_exactly() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let limits = device.limits();
        check_most(limits.max_pd, || device.alloc_pd());
        check_most(limits.max_cq, || device.create_cq(1, None, 0));
        let pd = device.alloc_pd().unwrap();
        check_most(limits.max_srq, || device.create_srq(&pd, 1, 1, 0));
        let ud = Node::new(device, Setup::new(QpType::Ud));
        let group = |number: u32| Gid::from(std::net::IpAddr::from([239, 1, (number >> 8) as u8, number as u8]));
        (0..limits.max_mcast_groups).for_each(|number| ud.qp.attach_multicast(group(number)).unwrap());
        let one_more = group(limits.max_mcast_groups);
        assert!(matches!(ud.qp.attach_multicast(one_more), Err(Error::Exhausted(_))));
        ud.qp.detach_multicast(group(0)).unwrap();
        ud.qp.attach_multicast(one_more).unwrap();
    });
}

fn check_most<T>(most: u32, make: impl Fn() -> Result<T, Error>) {
    let mut made: Vec<T> = (0..most).map(|_| make().unwrap()).collect();
    for _ in 0..2 {
        assert!(matches!(make(), Err(Error::Exhausted(_))));
    }
    made.pop();
    assert!(make().is_ok());
}

#[test]
fn packets_to_a_destroyed_queue_pair_are_counted() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Uc));
        b.qp.destroy().unwrap();
        a.send(1, SendOp::Write(b.remote(0)), 0, 8);
        wait_until("the drop", || b.device.counters().get("drop_unknown_qp") == 1);
    });
}

#[test]
pub(super) fn an_engine_ends_with_its_last_object() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let engine = a.device.engine().downgrade();
        let cq = a.send_cq.clone();
        drop((a, b));
        assert!(engine.upgrade().is_some(), "a completion queue needs it");
        drop(cq);
        assert!(engine.upgrade().is_none());
    });
}

/// Set in the process that will be killed: the queue pair number and address of its peer.
const PEER: &str = "LONGARM_TEST_KILLED_PEER";

#[test]
fn a_killed_peer_means_errors_in_bounded_time() {
    if let Ok(them) = std::env::var(PEER) {
        return be_killed(&them);
    }
    on_loopback(|group| {
        let a = Node::new(testing::open(group, 1, "lo"), Setup::new(QpType::Rc));
        group.open_slot(2).unwrap();
        let socket = group.slot(2).unwrap().try_clone_to_owned().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["tests::lifetimes::a_killed_peer_means_errors_in_bounded_time", "--exact", "--nocapture"])
            .env(PEER, format!("{} {}", a.qp.qpn().get(), a.gid.ip()))
            .stdin(Stdio::from(socket))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.unwrap().strip_prefix("peer ").map(str::to_owned)).unwrap();
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        connect(&a.qp, a.gid, Qpn::new(words[0] as u32), a.gid, transport::Mtu::B1024);
        let remote = transport::RemoteAddr { addr: words[1], rkey: RKey(words[2] as u32) };
        a.send(1, SendOp::Write(remote), 0, 1000);
        assert_eq!(a.sent().wr_id, 1, "the peer is there");
        child.kill().unwrap();
        child.wait().unwrap();
        for wr_id in 2..10 {
            a.send(wr_id, SendOp::Write(remote), 0, 100_000);
        }
        let completion = next(&a.send_cq);
        assert_eq!((completion.wr_id, completion.status), (2, Status::RetryExceeded));
        for wr_id in 3..10 {
            let completion = next(&a.send_cq);
            assert_eq!((completion.wr_id, completion.status), (wr_id, Status::WorkRequestFlushed));
        }
        assert!(matches!(a.qp.failure(), Some(Reason::NoAnswer { .. })));
    });
}

fn be_killed(them: &str) {
    let (qpn, ip) = them.split_once(' ').unwrap();
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let b = Node::new(testing::open_socket(socket, 2, "lo"), Setup::new(QpType::Rc));
    let gid = Gid::from(ip.parse::<std::net::IpAddr>().unwrap());
    connect(&b.qp, b.gid, Qpn::new(qpn.parse().unwrap()), gid, transport::Mtu::B1024);
    println!("\npeer {} {} {}", b.qp.qpn().get(), b.mr.addr(), b.mr.rkey().0);
    std::io::stdout().flush().unwrap();
    std::thread::sleep(PATIENCE * 2);
}

#[test]
#[allow(unsafe_code)]
fn a_forked_child_is_refused() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        // SAFETY: the child only calls this crate, which refuses without a lock or an allocation, and then exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = a.device.alloc_pd().is_err()
                && a.qp.post_send([a.send_wr(1, SendOp::Write(b.remote(0)), 0, 8)]).is_err()
                && a.send_cq.poll(&mut Vec::new(), 1) == Err(CqError::Forked)
                && a.qp.modify(&QpAttr::default(), AttrMask::STATE).is_err();
            drop((a, b));
            // SAFETY: `_exit` has no preconditions. It runs no exit handlers of the parent.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is a local value, and the pointer to it is valid during the call.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child was refused, and went in peace");
        a.send(1, SendOp::Write(b.remote(0)), 0, 1000);
        assert_eq!(a.sent().wr_id, 1, "the parent goes on");
    });
}
