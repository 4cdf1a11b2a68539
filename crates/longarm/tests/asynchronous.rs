//! Futures on two executors that know nothing of this library.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use common::*;
use futures_util::StreamExt;
use longarm::{Event, QpEvent, QueuePair, Status};
use testkit::PATIENCE;

const ROUNDS: u32 = 200;

async fn serve(side: &TestSide, qp: &QueuePair) {
    let mut spare = side.empty(64);
    let mut next = qp.recv(side.empty(64)).start();
    for _ in 0..ROUNDS {
        let message = next.await.unwrap();
        // Before the answer: iWARP ends a connection whose message finds no buffer.
        next = qp.recv(spare).start();
        let mut reply = message.into_buffer();
        reply.reverse();
        spare = qp.send(reply).await.unwrap();
        let room = spare.capacity();
        spare.set_len(room);
    }
}

async fn ask(side: &TestSide, qp: &QueuePair) {
    for round in 0..ROUNDS {
        let reply = qp.recv(side.empty(64)).start();
        qp.send(side.buffer(&round.to_be_bytes())).await.unwrap();
        let reply = reply.await.unwrap();
        assert_eq!(reply[..], round.to_le_bytes());
    }
}

#[test]
fn echo_on_pollster() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            std::thread::scope(|scope| {
                scope.spawn(|| pollster::block_on(serve(&b, &right)));
                pollster::block_on(ask(&a, &left));
            });
        })
    })
}

#[test]
fn echo_on_tokio() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { tokio::join!(serve(&b, &right), ask(&a, &left)) });
        })
    })
}

#[test]
fn many_tasks_share_one_connection() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(8, ALL).unwrap();
            let (left, key) = (Arc::new(left), region.key());
            if !has(a.device.capabilities().atomics, ATOMICS) {
                return;
            }
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let mut seen: Vec<u64> = runtime.block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                for _ in 0..64 {
                    let left = Arc::clone(&left);
                    tasks.spawn(async move { left.fetch_add(&key, 1).await.unwrap() });
                }
                tasks.join_all().await
            });
            seen.sort_unstable();
            assert_eq!(seen, (0..64).collect::<Vec<u64>>());
            assert_eq!(region.load(0).unwrap(), 64);
        })
    })
}

#[test]
fn a_future_cancelled_by_select_frees_nothing_in_flight() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = right.recv(b.empty(64)).start() => panic!("nobody has sent"),
                    () = tokio::time::sleep(Duration::from_millis(10)) => {}
                }
                let second = right.recv(b.empty(64)).start();
                left.send(a.buffer(b"lost")).await.unwrap();
                left.send(a.buffer(b"kept")).await.unwrap();
                assert_eq!(&second.await.unwrap()[..], b"kept");
            });
        })
    })
}

/// Polls a future once.
struct Once<'a, F>(&'a mut F);

impl<F: Future + Unpin> Future for Once<'_, F> {
    type Output = bool;
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<bool> {
        Poll::Ready(Pin::new(&mut self.0).poll(task).is_ready())
    }
}

#[test]
fn a_task_that_stops_polling_holds_nobody_up() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let mut idle = right.recv(b.empty(64)).start();
            let active = right.recv(b.empty(64)).start();
            let busy = std::thread::scope(|scope| {
                let busy = scope.spawn(|| pollster::block_on(active));
                pollster::block_on(async {
                    assert!(!Once(&mut idle).await);
                    left.send(a.buffer(b"for the idle one")).await.unwrap();
                    left.send(a.buffer(b"for the busy one")).await.unwrap();
                });
                busy.join().unwrap()
            });
            assert_eq!(&busy.unwrap()[..], b"for the busy one");
            assert_eq!(&pollster::block_on(idle).unwrap()[..], b"for the idle one");
        })
    })
}

#[test]
fn completions_of_poll_mode_can_be_awaited() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let tickets: Vec<_> = (0..20).map(|_| right.recv(b.empty(8)).post().unwrap()).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for byte in 0..20 {
                        std::thread::sleep(Duration::from_micros(200));
                        left.send_inline(&[byte]).wait(PATIENCE).unwrap();
                    }
                });
                pollster::block_on(async {
                    for (byte, ticket) in tickets.into_iter().enumerate() {
                        let done = b.cq.next().await.unwrap();
                        assert_eq!((done.ticket(), done.buffer().map(|b| b[0])), (ticket, Some(byte as u8)));
                    }
                });
            });
        })
    })
}

#[test]
fn failures_reach_futures() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let waiting = std::thread::spawn({
                let message = left.recv(a.empty(8)).start();
                || pollster::block_on(message)
            });
            std::thread::sleep(Duration::from_millis(10));
            drop((left, right));
            let failure = waiting.join().unwrap().unwrap_err();
            assert_eq!(failure.status(), Some(Status::WorkRequestFlushed));
        })
    })
}

#[test]
fn events_can_be_awaited_polled_and_waited_for() {
    in_own_network(|| {
        two_sides(|a, b| {
            let mut events = b.device.events();
            assert_eq!(events.try_next(), None);
            assert_eq!(events.wait(Duration::from_millis(5)).unwrap(), None);
            let waiting = std::thread::spawn(move || (pollster::block_on(events.next()), events));
            let srq = b.domain.shared_receive_queue(&b.cq, 8).unwrap();
            let right = b.rc().shared_receive_queue(&srq).build().unwrap();
            let (left, _right) = join(a.rc().build().unwrap(), right);
            let _kept = [(); 2].map(|()| srq.recv(b.empty(8)).start());
            srq.set_limit(2).unwrap();
            left.send_inline(b"one").wait(PATIENCE).unwrap();
            let (event, mut events) = waiting.join().unwrap();
            assert_eq!(event, Event::SrqLimitReached(srq.id()));
            assert_eq!(events.try_next(), None);
        })
    })
}

#[test]
fn a_refused_request_is_an_event_of_the_queue_pair_that_refused_it() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has(!on_hardware(), "an event for a request that was refused") {
                return;
            }
            let mut events = b.device.events();
            let (left, right) = rc_pair(&a, &b);
            let key = b.domain.expose(8, longarm::Access::REMOTE_READ).unwrap().key();
            left.write_inline(b"no right", &key).wait(PATIENCE).unwrap_err();
            let qpn = right.qpn();
            assert_eq!(events.wait(PATIENCE).unwrap(), Some(Event::Qp { qpn, event: QpEvent::AccessError }));
            assert_eq!(events.try_next(), None);

            // The same as a stream.
            let waiting = std::thread::spawn(move || pollster::block_on(events.take(1).collect::<Vec<_>>()));
            let (left, right) = rc_pair(&a, &b);
            left.write_inline(b"no right", &key).wait(PATIENCE).unwrap_err();
            assert_eq!(waiting.join().unwrap(), [Event::Qp { qpn: right.qpn(), event: QpEvent::AccessError }]);
        })
    })
}
