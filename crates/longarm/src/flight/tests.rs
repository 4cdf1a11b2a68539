//! Work queues alone: who gets what, and when. The device is played by the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Wake, Waker};

use smallvec::SmallVec;
use transport::{Completion, CompletionOp, Status};
use wire::Qpn;

use super::*;

const QPN: Qpn = Qpn::GSI;

fn entry(op: CompletionOp, signaled: bool, delivery: Delivery) -> PreparedRequest {
    PreparedRequest { loan: Loan::List(Vec::new()), op, signaled, delivery }
}

fn enter_all(queue: &WorkQueue, entries: impl IntoIterator<Item = PreparedRequest>) -> Vec<(RequestKey, bool)> {
    let mut entries: SmallVec<_> = entries.into_iter().collect();
    queue.enter(&mut entries).expect("room").to_vec()
}

fn enter(queue: &WorkQueue, signaled: bool, delivery: Delivery) -> RequestKey {
    enter_all(queue, [entry(CompletionOp::Send, signaled, delivery)])[0].0
}

fn success(key: RequestKey) -> Completion {
    Completion::success(key.wr_id(), QPN, CompletionOp::Send, 0)
}

fn ready(effects: &CompletionEffects) -> Vec<(RequestKey, Status)> {
    effects.ready.iter().map(|(key, done)| (*key, done.completion.status)).collect()
}

#[derive(Default)]
struct Calls(AtomicU32);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counting_waker() -> (Arc<Calls>, Waker) {
    let calls = Arc::new(Calls::default());
    (Arc::clone(&calls), Waker::from(calls))
}

#[test]
fn keys_keep_their_parts() {
    let key = RequestKey::new(0xab_cdef, 0x1_2345, 0xf_6789);
    assert_eq!((key.queue(), key.slot()), (0xab_cdef, 0x1_2345));
    assert_eq!(RequestKey::from_wr_id(key.wr_id()), key);
    assert_ne!(RequestKey::new(1, 2, 3), RequestKey::new(1, 2, 4));
    assert_eq!(RequestKey::new(1, 2, 1 << 20), RequestKey::new(1, 2, 0));
}

#[test]
fn a_completion_goes_to_poll_mode_once() {
    let queue = WorkQueue::new(7, 4, true);
    let key = enter(&queue, true, Delivery::Poll);
    assert_eq!(queue.lent(), 1);
    let mut effects = CompletionEffects::default();
    queue.complete(&success(key), &mut effects);
    queue.complete(&success(key), &mut effects);
    assert_eq!(ready(&effects), [(key, Status::Success)]);
    assert_eq!(queue.lent(), 0);
}

#[test]
fn a_slot_is_used_again_under_another_key() {
    let queue = WorkQueue::new(7, 4, true);
    let first = enter(&queue, true, Delivery::Poll);
    queue.complete(&success(first), &mut CompletionEffects::default());
    let second = enter(&queue, true, Delivery::Poll);
    assert_eq!(first.slot(), second.slot());
    assert_ne!(first, second);
    let mut effects = CompletionEffects::default();
    queue.complete(&success(first), &mut effects);
    assert!(effects.ready.is_empty(), "a stale completion is ignored");
    assert_eq!(queue.lent(), 1);
}

#[test]
fn a_full_queue_takes_none_of_a_list() {
    let queue = WorkQueue::new(7, 2, true);
    enter(&queue, true, Delivery::Poll);
    let mut list: SmallVec<_> = (0..2).map(|_| entry(CompletionOp::Write, true, Delivery::Poll)).collect();
    assert!(queue.enter(&mut list).is_none());
    assert_eq!(list.len(), 2);
    assert_eq!(queue.lent(), 1);
}

#[test]
fn unsignaled_requests_are_reported_before_the_signaled_one_behind_them() {
    let queue = WorkQueue::new(7, 8, true);
    let write = |signaled| entry(CompletionOp::Write, signaled, Delivery::Poll);
    let keys = enter_all(&queue, [write(false), write(false), write(true), write(true)]);
    let mut effects = CompletionEffects::default();
    queue.complete(&success(keys[2].0), &mut effects);
    let expected: Vec<_> = keys[..3].iter().map(|(key, _)| (*key, Status::Success)).collect();
    assert_eq!(ready(&effects), expected);
    assert_eq!(effects.ready[0].1.op, CompletionOp::Write);
    assert_eq!(queue.lent(), 1);
}

#[test]
fn a_failed_unsignaled_request_is_itself_and_those_before_it_succeeded() {
    let queue = WorkQueue::new(7, 8, true);
    let [first, second] = [(); 2].map(|()| enter(&queue, false, Delivery::Poll));
    let failed = Completion::failure(second.wr_id(), QPN, CompletionOp::Read, Status::RemoteAccess);
    let mut effects = CompletionEffects::default();
    queue.complete(&failed, &mut effects);
    assert_eq!(ready(&effects), [(first, Status::Success), (second, Status::RemoteAccess)]);
    assert_eq!(effects.ready[1].1.op, CompletionOp::Send, "the request's own word for it");
}

#[test]
fn a_run_of_unsignaled_requests_is_broken_before_the_queue_is_full() {
    for depth in [1, 2, 3, 8, 128] {
        let queue = WorkQueue::new(7, depth, true);
        let list = (0..depth).map(|_| entry(CompletionOp::Send, false, Delivery::Poll));
        let signaled = enter_all(&queue, list).iter().filter(|(_, signaled)| *signaled).count();
        assert!((1..=depth.max(3) as usize).contains(&signaled), "{signaled} of {depth}");
    }
}

#[test]
fn completions_that_nobody_polls_for_fill_the_queue() {
    let queue = WorkQueue::new(7, 2, true);
    for _ in 0..2 {
        let key = enter(&queue, true, Delivery::Poll);
        queue.complete(&success(key), &mut CompletionEffects::default());
    }
    let mut one: SmallVec<_> = [entry(CompletionOp::Send, true, Delivery::Poll)].into_iter().collect();
    assert!(queue.enter(&mut one).is_none());
    queue.claimed();
    assert!(queue.enter(&mut one).is_some());
}

#[test]
fn a_signaled_request_waits_for_its_own_report() {
    let queue = WorkQueue::new(7, 4, true);
    let [first, second] = [(); 2].map(|()| enter(&queue, true, Delivery::Poll));
    let mut effects = CompletionEffects::default();
    queue.complete(&success(second), &mut effects);
    queue.complete(&success(first), &mut effects);
    assert_eq!(ready(&effects), [(second, Status::Success), (first, Status::Success)]);
}

#[test]
fn a_waiter_is_woken_and_takes_the_result() {
    let queue = WorkQueue::new(7, 4, true);
    let (calls, waker) = counting_waker();
    let key = enter(&queue, true, Delivery::Waiter(None));
    assert!(matches!(queue.take_or_wait(key, Some(&waker)), RequestStatus::NotYet));
    let mut effects = CompletionEffects::default();
    queue.complete(&success(key), &mut effects);
    assert!(effects.ready.is_empty());
    effects.wakers.drain(..).for_each(Waker::wake);
    assert_eq!(calls.0.load(SeqCst), 1);
    assert!(matches!(queue.take_or_wait(key, None), RequestStatus::Done(done) if done.is_ok()));
    assert!(matches!(queue.take_or_wait(key, None), RequestStatus::Unknown));
}

#[test]
fn a_finished_request_that_nobody_took_does_not_count_as_lent() {
    let queue = WorkQueue::new(7, 1, true);
    let key = enter(&queue, true, Delivery::Waiter(None));
    queue.complete(&success(key), &mut CompletionEffects::default());
    let next = enter(&queue, true, Delivery::Poll);
    assert_ne!(key.slot(), next.slot());
}

#[test]
fn a_loan_without_waiter_is_kept_until_the_device_is_done() {
    let queue = WorkQueue::new(7, 4, true);
    let key = enter(&queue, true, Delivery::Waiter(None));
    assert!(queue.stop_waiting(key, Delivery::Nobody).is_none());
    assert_eq!(queue.lent(), 1, "the loan goes on");
    let mut effects = CompletionEffects::default();
    queue.complete(&success(key), &mut effects);
    assert_eq!((effects.orphans.len(), effects.ready.len()), (1, 0));
    assert_eq!(queue.lent(), 0);
}

#[test]
fn a_waiter_that_stops_too_late_gets_the_result() {
    let queue = WorkQueue::new(7, 4, true);
    let key = enter(&queue, true, Delivery::Waiter(None));
    queue.complete(&success(key), &mut CompletionEffects::default());
    assert!(queue.stop_waiting(key, Delivery::Poll).is_some_and(|done| done.is_ok()));
    assert!(queue.stop_waiting(key, Delivery::Poll).is_none());
}

#[test]
fn receives_may_complete_in_any_order() {
    let queue = WorkQueue::new(7, 4, false);
    let [first, second] = [(); 2].map(|()| enter(&queue, true, Delivery::Poll));
    let mut effects = CompletionEffects::default();
    queue.complete(&success(second), &mut effects);
    queue.complete(&success(first), &mut effects);
    assert_eq!(ready(&effects), [(second, Status::Success), (first, Status::Success)]);
}

#[test]
fn a_refused_request_gives_its_loan_back_and_leaves_the_order() {
    let queue = WorkQueue::new(7, 4, true);
    let first = enter(&queue, false, Delivery::Poll);
    let second = enter(&queue, true, Delivery::Poll);
    assert!(matches!(queue.withdraw(second), Loan::List(_)));
    let third = enter(&queue, true, Delivery::Poll);
    let mut effects = CompletionEffects::default();
    queue.complete(&success(third), &mut effects);
    assert_eq!(ready(&effects), [(first, Status::Success), (third, Status::Success)]);
}

#[test]
fn a_destroyed_queue_gives_everything_back_as_flushed() {
    let queue = WorkQueue::new(7, 4, true);
    let (calls, waker) = counting_waker();
    let polled = enter(&queue, false, Delivery::Poll);
    let awaited = enter(&queue, true, Delivery::Waiter(Some(waker)));
    enter(&queue, true, Delivery::Nobody);
    let mut effects = CompletionEffects::default();
    queue.reclaim(QPN, &mut effects);
    assert_eq!(ready(&effects), [(polled, Status::WorkRequestFlushed)]);
    assert_eq!(effects.orphans.len(), 1);
    effects.wakers.drain(..).for_each(Waker::wake);
    assert_eq!(calls.0.load(SeqCst), 1);
    assert!(matches!(queue.take_or_wait(awaited, None), RequestStatus::Done(done) if !done.is_ok()));
    assert_eq!(queue.lent(), 0);
    queue.complete(&success(polled), &mut effects);
    assert_eq!(effects.ready.len(), 1, "a late completion meets nobody");
}

#[test]
fn lost_completions_wake_everybody() {
    let queue = WorkQueue::new(7, 4, true);
    let (calls, waker) = counting_waker();
    enter(&queue, true, Delivery::Waiter(Some(waker)));
    enter(&queue, true, Delivery::Poll);
    let mut effects = CompletionEffects::default();
    queue.wake_all(&mut effects);
    effects.wakers.drain(..).for_each(Waker::wake);
    assert_eq!((calls.0.load(SeqCst), queue.lent()), (1, 2));
}
