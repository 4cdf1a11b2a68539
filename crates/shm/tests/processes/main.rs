//! Two processes: this test and a child that plays a role.

mod child;
mod couple;
mod kill;

use couple::{Couple, block};
use longarm_shm::Death;
use memory::{Region, Span};
use std::os::fd::AsFd;
use testkit::wait_until;

/// The child's side: the test binary is executed again with a role in its environment.
#[test]
fn role() {
    let name = testkit::role().unwrap_or_default();
    assert!(name.is_empty() || child::play(&name), "there is no role {name}");
}

#[test]
fn objects_are_passed_mapped_and_written() {
    let couple = Couple::start("objects");
    let region = Region::allocate(3 << 20).expect("memory");
    assert!(couple.link.offer_object(7, &region.object_file().expect("a file")));
    // The child writes into this process' object and offers one of its own.
    let frame = couple.receive();
    assert_eq!(frame, b"written");
    let mut seen = [0; 5];
    region.span().part(1 << 20, 5).expect("inside").read(&mut seen);
    assert_eq!(&seen, b"child");
    wait_until("the child's object", || {
        couple.link.serve_socket();
        couple.link.peer().object(9).is_some()
    });
    couple.link.peer().object(9).expect("mapped").span().part(0, 6).expect("inside").write(b"parent");
    couple.send(b"look");
    assert_eq!(couple.receive(), b"parent");
    couple.send(b"end");
    wait_until("the child's end", || {
        couple.link.serve_socket();
        couple.link.is_dead()
    });
    assert_eq!(couple.link.death(), Some(Death::Gone));
    // Mapped memory outlives its owner.
    assert!(couple.link.peer().object(9).is_some());
}

#[test]
fn memory_is_reached_the_far_way() {
    let couple = Couple::start("far");
    let address = u64::from_ne_bytes(couple.receive().try_into().expect("an address"));
    let peer = couple.link.peer();
    if peer.reaches_far() {
        let mut bytes = *b"12345678";
        // SAFETY: the bytes are a local variable, which only the span uses while it lives.
        let span = unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) };
        peer.read_far(address, span).expect("it is mapped there");
        assert_eq!(&bytes, b"far away");
        bytes.copy_from_slice(b"was here");
        peer.write_far(address, span).expect("it is mapped there");
    }
    couple.send(if peer.reaches_far() { b"was here" } else { b"far away" });
    assert_eq!(couple.receive(), b"right");
    let mut couple = couple;
    couple.kill();
    let mut byte = [0u8];
    // SAFETY: the byte is a local variable, which only the span uses while it lives.
    let span = unsafe { Span::new(byte.as_mut_ptr(), 1) };
    assert!(couple.link.peer().read_far(address, span).is_err());
}

#[test]
fn nobody_sleeps_through_a_frame() {
    let couple = Couple::start("echo");
    let rounds: u32 = 3000;
    for round in 0..rounds {
        couple.send(&round.to_ne_bytes());
        // Each side blocks until it is woken; if a frame did not ring the bell, the wait would time out.
        let answer = block(&couple.link, &couple.export, couple.bell.as_fd());
        assert_eq!(answer, round.to_ne_bytes());
    }
}

#[test]
fn the_kernel_tells_of_a_death_before_anybody_can_wait_for_it() {
    for how in ["killed", "end"] {
        let mut couple = Couple::start("alive");
        for _ in 0..2 {
            for said in [&b"held"[..], b"let go"] {
                assert_eq!(couple.receive(), said);
                assert!(!couple.link.peer().has_died());
                couple.send(b"on");
            }
        }
        assert_eq!(couple.receive(), b"held");
        assert!(!couple.link.peer().has_died());
        if how == "end" {
            couple.send(b"end");
            couple.wait();
        } else {
            couple.kill();
        }
        assert!(couple.link.peer().has_died(), "{how}");
        assert!(!couple.link.is_dead(), "nobody has looked at the socket");
    }
}

#[test]
fn a_child_that_is_killed_is_noticed() {
    let mut couple = Couple::start("echo");
    couple.send(b"hello");
    assert_eq!(couple.receive(), b"hello");
    assert!(!couple.link.is_dead());
    couple.kill();
    wait_until("the child's death", || {
        couple.link.serve_socket();
        couple.link.is_dead()
    });
    assert_eq!(couple.link.death(), Some(Death::Gone));
    assert!(couple.link.producer(0).reserve(8).is_none());
}
