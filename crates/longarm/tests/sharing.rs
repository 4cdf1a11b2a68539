//! Shared receive queues and memory windows.

mod common;

use common::*;
use longarm::{Access, Event, PostError, Status, WindowType, WorkError};
use testkit::PATIENCE;

#[test]
fn one_supply_of_buffers_serves_two_connections() {
    in_own_network(|| {
        two_sides(|a, b| {
            let srq = b.domain.shared_receive_queue(&b.cq, 8).unwrap();
            let pair = || {
                let theirs = b.rc().shared_receive_queue(&srq).build().unwrap();
                join(a.rc().build().unwrap(), theirs)
            };
            let ((one, its), (two, other)) = (pair(), pair());
            let messages: Vec<_> = (0..2).map(|_| srq.recv(b.empty(16)).start()).collect();
            assert_eq!(srq.lent(), 2);
            two.send_inline(b"two").wait(PATIENCE).unwrap();
            one.send_inline(b"one").wait(PATIENCE).unwrap();
            let got: Vec<_> = messages.into_iter().map(|m| m.wait(PATIENCE).unwrap()).collect();
            assert_eq!((&got[0][..], got[0].qpn()), (&b"two"[..], other.qpn()));
            assert_eq!((&got[1][..], got[1].qpn()), (&b"one"[..], its.qpn()));
            assert_eq!(srq.lent(), 0);
            let refused = its.recv(b.empty(16)).post().unwrap_err().into_error();
            assert!(matches!(refused, WorkError::NotPosted(PostError::SharedReceive)));
        })
    })
}

#[test]
fn the_limit_tells_that_buffers_run_low() {
    in_own_network(|| {
        two_sides(|a, b| {
            let srq = b.domain.shared_receive_queue(&b.cq, 8).unwrap();
            let theirs = b.rc().shared_receive_queue(&srq).build().unwrap();
            let (one, _its) = join(a.rc().build().unwrap(), theirs);
            let kept: Vec<_> = (0..3).map(|_| srq.recv(b.empty(16)).start()).collect();
            srq.set_limit(2).unwrap();
            let mut events = b.device.events();
            one.send_inline(b"1").wait(PATIENCE).unwrap();
            assert_eq!(events.try_next(), None);
            one.send_inline(b"2").wait(PATIENCE).unwrap();
            let event = events.wait(PATIENCE).unwrap();
            assert_eq!(event, Some(Event::SrqLimitReached(srq.id())));
            drop(kept);
        })
    })
}

#[test]
fn a_dropped_shared_queue_gives_its_buffers_back() {
    in_own_network(|| {
        two_sides(|_a, b| {
            let srq = b.domain.shared_receive_queue(&b.cq, 8).unwrap();
            let message = srq.recv(b.empty(16)).start();
            let ticket = srq.recv(b.empty(16)).post().unwrap();
            drop(srq);
            let failure = message.wait(PATIENCE).unwrap_err();
            assert_eq!(failure.status(), Some(Status::WorkRequestFlushed));
            assert!(failure.into_buffer().is_some());
            let polled = b.cq.wait(PATIENCE).unwrap().expect("the posted one");
            assert_eq!(polled.ticket(), ticket);
        })
    })
}

/// Whether a device has memory windows. One that has none refuses them in words.
fn has_windows(side: &TestSide) -> bool {
    let abilities = side.device.capabilities();
    if has(abilities.windows_1 && abilities.windows_2, "memory windows") {
        return true;
    }
    let region = side.domain.expose(64, Access::empty()).unwrap();
    let error = region.window(0..8, Access::REMOTE_READ).unwrap_err().to_string();
    assert!(error.contains("no memory windows"), "{error}");
    false
}

#[test]
fn a_window_opens_part_of_a_region_until_it_is_unbound() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has_windows(&b) {
                return;
            }
            for kind in [WindowType::One, WindowType::Two] {
                let (left, right) = rc_pair(&a, &b);
                let region = b.domain.expose(64, Access::empty()).unwrap();
                let window = region.window_of_type(kind, 16..32, Access::REMOTE_WRITE).unwrap();
                let bound = right.bind(window).wait(PATIENCE).unwrap();
                let key = bound.key();
                assert_eq!(key.len_bytes(), 16);
                left.write_inline(b"through a window", &key).wait(PATIENCE).unwrap();
                let mut seen = [0; 16];
                region.copy_out(16, &mut seen).unwrap();
                assert_eq!(&seen, b"through a window");

                let window = right.unbind(bound).wait(PATIENCE).unwrap();
                assert_eq!(window.window_type(), kind);
                let bound = right.bind(window).wait(PATIENCE).unwrap();
                assert_ne!(bound.key().rkey(), key.rkey(), "each bind has a key of its own");
                left.write_inline(b"!", &bound.key()).wait(PATIENCE).unwrap();
                let dead = left.write_inline(b"?", &key).wait(PATIENCE).unwrap_err();
                assert_eq!(dead.status(), Some(Status::RemoteAccess), "{kind:?}");
            }
        })
    })
}

#[test]
fn dropping_a_window_revokes_its_key_at_once() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            if !has_windows(&b) {
                return;
            }
            let region = b.domain.expose(64, Access::empty()).unwrap();
            let window = region.window(0..8, Access::REMOTE_READ).unwrap();
            let bound = right.bind(window).wait(PATIENCE).unwrap();
            let key = bound.key();
            left.read(a.empty(8), &key).wait(PATIENCE).unwrap();
            drop(bound);
            let dead = left.read(a.empty(8), &key).wait(PATIENCE).unwrap_err();
            assert_eq!(dead.status(), Some(Status::RemoteAccess));
        })
    })
}

#[test]
fn a_peer_can_give_a_window_back_with_its_answer() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            if !has_windows(&b) {
                return;
            }
            let region = b.domain.expose(64, Access::empty()).unwrap();
            let window = region.window(0..8, Access::REMOTE_WRITE).unwrap();
            let bound = right.bind(window).wait(PATIENCE).unwrap();
            let key = bound.key();
            let answer = right.recv(b.empty(16)).start();
            left.write_inline(b"result", &key).wait(PATIENCE).unwrap();
            left.send_with_invalidate(a.buffer(b"done"), key.rkey()).wait(PATIENCE).unwrap();
            let answer = answer.wait(PATIENCE).unwrap();
            assert_eq!(answer.invalidated(), Some(key.rkey()));
            let dead = left.write_inline(b"again", &key).wait(PATIENCE).unwrap_err();
            assert_eq!(dead.status(), Some(Status::RemoteAccess));
        })
    })
}

#[test]
fn windows_lie_within_their_region() {
    in_own_network(|| {
        two_sides(|a, _b| {
            let region = a.domain.expose(64, Access::empty()).unwrap();
            for range in [0..0, 60..65, 64..64, u64::MAX - 1..u64::MAX] {
                assert!(region.window(range.clone(), ALL).is_err(), "{range:?}");
            }
            assert!(!has_windows(&a) || region.window(0..64, ALL).is_ok());
        })
    })
}
