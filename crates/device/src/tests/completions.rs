//! Completion queues: overruns, arming, channels, wakers.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Wake, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transport::{QpState, QpType, Reason, SendFlags, SendOp};

use super::rig::*;
use crate::handles::cq::CqSpec;
use crate::objects::events::AsyncEvent;
use crate::{CqError, testing};

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
pub(super) fn an_overrun_is_reported_and_ends_the_queue_pair() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup { cq_capacity: 4, ..Setup::new(QpType::Rc) });
        let list = (0..10).map(|index| a.send_wr(index, SendOp::Write(b.remote(0)), 0, 8));
        a.qp.post_send(list).unwrap();
        wait_until("the failure", || a.qp.state() == QpState::Error);
        assert_eq!(a.qp.failure(), Some(Reason::CompletionQueueOverrun));
        let mut out = Vec::new();
        assert_eq!(a.send_cq.poll(&mut out, 100), Ok(4), "those that had room come out");
        assert_eq!(out.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(a.send_cq.poll(&mut out, 100), Err(CqError::Overrun));
        assert_eq!(a.send_cq.arm(false), Err(CqError::Overrun));
        let event = AsyncEvent::CqError { cq: a.send_cq.id(), cookie: 1 };
        assert_eq!(a.device.next_event(), Some(event));
        assert_eq!(a.device.counters().get("cq_overruns"), 1);
    });
}

#[test]
pub(super) fn an_overrun_spares_other_queue_pairs() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup { cq_capacity: 2, ..Setup::new(QpType::Rc) });
        let setup = Setup::new(QpType::Rc);
        let (c, d) = (Node::new(a.device.clone(), setup), Node::new(b.device.clone(), setup));
        link(&c, &d);
        let list = (0..5).map(|index| a.send_wr(index, SendOp::Write(b.remote(0)), 0, 8));
        a.qp.post_send(list).unwrap();
        wait_until("the failure", || a.qp.state() == QpState::Error);
        c.send(1, SendOp::Write(d.remote(0)), 0, 1000);
        assert_eq!(c.sent().wr_id, 1);
    });
}

#[test]
pub(super) fn a_channel_is_readable_exactly_while_events_are_pending() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let setup = Setup::new(QpType::Rc);
        let cq = |cookie| device.create_cq(100, Some(&channel), cookie).unwrap();
        let a = Node::with(device.clone(), setup, &device.alloc_pd().unwrap(), (cq(11), cq(12)), None);
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        a.post_recv(1, 0, 10);
        b.send(1, SendOp::Send, 0, 10);
        wait_until("the completion", || a.recv_cq.len() == 1);
        assert!(!is_readable(channel.fd()), "it was not armed");
        a.recv_cq.arm(false).unwrap();
        a.send_cq.arm(false).unwrap();
        assert!(!is_readable(channel.fd()), "it came before the arming");
        a.post_recv(2, 0, 10);
        b.send(2, SendOp::Send, 0, 10);
        wait_until("the event", || is_readable(channel.fd()));
        assert_eq!(channel.next(), Some(12));
        assert_eq!(channel.next(), None);
        assert!(!is_readable(channel.fd()));
        assert_eq!(a.recv_cq.unacked_events(), 1);
        a.recv_cq.ack_events(1);
        assert_eq!(a.recv_cq.unacked_events(), 0);
        a.send(3, SendOp::Write(b.remote(0)), 0, 10);
        wait_until("the event", || is_readable(channel.fd()));
        assert_eq!(channel.next(), Some(11));
    });
}

#[test]
pub(super) fn who_found_nothing_and_arms_is_told_of_what_came_between() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let setup = Setup::new(QpType::Rc);
        let a = Node::with_cq(device.clone(), setup, &device.create_cq(100, Some(&channel), 3).unwrap());
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        let cq = &a.send_cq;
        let write = |wr_id, waiting| {
            a.send(wr_id, SendOp::Write(b.remote(0)), 0, 10);
            wait_until("the completion", || cq.len() == waiting);
        };
        let poll = |max| cq.poll(&mut Vec::new(), max).unwrap();
        assert_eq!(poll(4), 0);
        write(1, 1);
        cq.arm(true).unwrap();
        assert!(!is_readable(channel.fd()), "it is not solicited");
        cq.arm(false).unwrap();
        assert_eq!(channel.next(), Some(3), "the poll before found nothing");
        write(2, 2);
        cq.arm(false).unwrap();
        assert_eq!(channel.next(), None, "there was an event, and no poll since");
        assert_eq!(poll(2), 2);
        write(3, 1);
        wait_until("the event of what comes after the arming", || channel.next() == Some(3));
        write(4, 2);
        assert_eq!(poll(1), 1);
        cq.arm(false).unwrap();
        assert_eq!(channel.next(), None, "the last poll left some");
        write(5, 2);
        wait_until("the event of what comes after the arming", || channel.next() == Some(3));
        assert_eq!(poll(4), 2);
        write(6, 1);
        cq.arm(false).unwrap();
        assert_eq!(channel.next(), Some(3), "a poll of less than it had room for found nothing left");
    });
}

#[test]
pub(super) fn a_batch_ends_before_a_completion_whose_event_nobody_fetched() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let setup = Setup::new(QpType::Rc);
        let a = Node::with_cq(device.clone(), setup, &device.create_cq(100, Some(&channel), 3).unwrap());
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        let cq = &a.send_cq;
        let write = |wr_id, waiting| {
            a.send(wr_id, SendOp::Write(b.remote(0)), 0, 10);
            wait_until("the completion", || cq.len() == waiting);
        };
        let begin = || cq.poll_each(1, |_, _| {}).unwrap();
        let go_on = || cq.poll_on(|_, _| {}).unwrap();
        write(1, 1);
        write(2, 2);
        cq.arm(false).unwrap();
        write(3, 3);
        wait_until("the event", || is_readable(channel.fd()));
        assert_eq!((begin(), go_on(), go_on()), (1, 1, 0), "the third brought the event");
        assert_eq!(channel.next(), Some(3));
        assert_eq!((go_on(), go_on()), (1, 0));
        cq.arm(false).unwrap();
        write(4, 1);
        wait_until("the event", || is_readable(channel.fd()));
        write(5, 2);
        assert_eq!((go_on(), begin(), go_on()), (0, 1, 1), "a new batch begins with it");
        assert_eq!(channel.next(), Some(3), "events are not taken back");
    });
}

#[test]
fn a_queue_takes_its_events_with_it() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let setup = Setup::new(QpType::Rc);
        let cq = device.create_cq(100, Some(&channel), 1).unwrap();
        let a = Node::with_cq(device.clone(), setup, &cq);
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        a.send_cq.arm(false).unwrap();
        a.send(1, SendOp::Write(b.remote(0)), 0, 10);
        wait_until("the event", || is_readable(channel.fd()));
        assert_eq!(channel.destroy().unwrap_err().errno(), libc::EBUSY);
        drop((a, cq));
        assert!(!is_readable(channel.fd()));
        assert_eq!(channel.next(), None);
        channel.destroy().unwrap();
    });
}

#[test]
pub(super) fn solicited_only_lets_others_pass() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let setup = Setup::new(QpType::Rc);
        let cq = device.create_cq(100, Some(&channel), 5).unwrap();
        let a = Node::with_cq(device.clone(), setup, &cq);
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        a.post_recv(1, 0, 10);
        a.post_recv(2, 0, 10);
        a.recv_cq.arm(true).unwrap();
        b.send(1, SendOp::Send, 0, 10);
        wait_until("the completion", || a.recv_cq.len() == 1);
        assert!(!is_readable(channel.fd()));
        let mut wr = b.send_wr(2, SendOp::Send, 0, 10);
        wr.flags |= SendFlags::SOLICITED;
        b.qp.post_send([wr]).unwrap();
        wait_until("the event", || is_readable(channel.fd()));
        assert_eq!(channel.next(), Some(5));
        assert!(a.received().wr_id == 1 && a.received().solicited);
    });
}

#[test]
pub(super) fn a_failure_counts_as_solicited() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let channel = device.create_channel().unwrap();
        let cq = device.create_cq(100, Some(&channel), 6).unwrap();
        let a = Node::with_cq(device.clone(), Setup::new(QpType::Rc), &cq);
        a.connect(&a, transport::Mtu::B1024);
        a.post_recv(1, 0, 10);
        a.recv_cq.arm(true).unwrap();
        let attr = transport::QpAttr { state: QpState::Error, ..Default::default() };
        a.qp.modify(&attr, transport::AttrMask::STATE).unwrap();
        assert_eq!(channel.next(), Some(6));
        assert_eq!(a.received().status, transport::Status::WorkRequestFlushed);
    });
}

struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
pub(super) fn a_waker_is_called_once_for_each_arming() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let count = Arc::new(Count(AtomicU32::new(0)));
        a.send_cq.set_waker(Some(Waker::from(count.clone())));
        a.send(1, SendOp::Write(b.remote(0)), 0, 8);
        wait_until("the completion", || a.send_cq.len() == 1);
        assert_eq!(count.0.load(SeqCst), 0, "it was not armed");
        a.send_cq.arm(false).unwrap();
        a.send(2, SendOp::Write(b.remote(0)), 0, 8);
        wait_until("the call", || count.0.load(SeqCst) == 1);
        a.send(3, SendOp::Write(b.remote(0)), 0, 8);
        wait_until("the completion", || a.send_cq.len() == 3);
        assert_eq!(count.0.load(SeqCst), 1);
    });
}

/// A waker that runs the woken task inside the call that wakes it.
struct PostsAgain(Node, Node);

impl Wake for PostsAgain {
    fn wake(self: Arc<Self>) {
        self.0.send(2, SendOp::Write(self.1.remote(0)), 0, 8);
    }
}

#[test]
pub(super) fn a_waker_may_use_the_device() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let (cq, qp, remote) = (a.send_cq.clone(), a.qp.clone(), b.remote(0));
        let first = a.send_wr(1, SendOp::Write(remote), 0, 8);
        cq.arm(false).unwrap();
        cq.set_waker(Some(Waker::from(Arc::new(PostsAgain(a, b)))));
        qp.post_send([first]).unwrap();
        assert_eq!(next(&cq).wr_id, 1);
        assert_eq!(next(&cq).wr_id, 2);
    });
}

#[test]
fn a_queue_is_resized_but_not_below_its_contents() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup { cq_capacity: 2, ..Setup::new(QpType::Rc) });
        a.send_cq.resize(64).unwrap();
        for index in 0..10 {
            a.send(index, SendOp::Write(b.remote(0)), 0, 8);
        }
        wait_until("the completions", || a.send_cq.len() == 10);
        assert_eq!(a.send_cq.resize(9).unwrap_err().errno(), libc::EINVAL);
        a.send_cq.resize(10).unwrap();
        assert_eq!(a.send_cq.capacity(), 10);
        assert_eq!(a.qp.state(), QpState::Rts);
    });
}

#[test]
pub(super) fn unsignaled_requests_leave_no_completion() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let list = (0..8).map(|index| {
            let mut wr = a.send_wr(index, SendOp::Write(b.remote(0)), 0, 8);
            wr.flags.set(SendFlags::SIGNALED, index == 7);
            wr
        });
        a.qp.post_send(list).unwrap();
        assert_eq!(a.sent().wr_id, 7);
        assert!(a.send_cq.is_empty());
    });
}

#[test]
fn a_queue_with_timestamps_keeps_the_time_of_each_completion() {
    on_loopback(|group| {
        let device = testing::open(group, 1, "lo");
        let spec = CqSpec { capacity: 100, channel: None, cookie: 7, timestamps: true };
        let setup = Setup::new(QpType::Rc);
        let a = Node::with_cq(device.clone(), setup, &device.create_cq_with(&spec).unwrap());
        let b = Node::new(testing::open(group, 2, "lo"), setup);
        link(&a, &b);
        let before = crate::clock::now().0;
        for wr_id in 0..3 {
            a.send(wr_id, SendOp::Write(b.remote(0)), 0, 8);
            wait_until("the completion", || a.send_cq.len() == wr_id as u32 + 1);
        }
        let mut seen = vec![(u64::MAX, before)];
        assert_eq!(a.send_cq.poll_each(2, |c, at| seen.push((c.wr_id, at))), Ok(2));
        assert_eq!(a.send_cq.poll_each(2, |c, at| seen.push((c.wr_id, at))), Ok(1));
        seen.push((u64::MAX, crate::clock::now().0));
        assert_eq!(seen[1..4].iter().map(|(wr_id, _)| *wr_id).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(seen.is_sorted_by_key(|(_, at)| *at), "{seen:?}");
    });
}

#[test]
fn without_timestamps_the_time_is_zero() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.send(5, SendOp::Write(b.remote(0)), 0, 8);
        wait_until("the completion", || a.send_cq.len() == 1);
        let mut seen = Vec::new();
        assert_eq!(a.send_cq.poll_each(10, |c, at| seen.push((c.wr_id, at))), Ok(1));
        assert_eq!(seen, [(5, 0)]);
    });
}
