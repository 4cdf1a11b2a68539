use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::*;
use crate::objects::MAX_OBJECTS;
use crate::sys;
use crate::testing::Couple;

const BYTES: usize = 8192;

fn sealed() -> OwnedFd {
    let fd = sys::memfd(c"test", BYTES).expect("a memfd");
    sys::seal(fd.as_fd(), libc::F_SEAL_SHRINK).expect("sealed");
    fd
}

/// An object that is claimed to be a whole file of this length.
fn whole(fd: OwnedFd, len_bytes: u64) -> ObjectFile {
    ObjectFile { fd: Arc::new(fd), start: 0, len_bytes }
}

fn object() -> ObjectFile {
    whole(sealed(), BYTES as u64)
}

#[test]
fn an_object_is_offered_mapped_written_and_withdrawn() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let file = object();
    assert!(b.peer().object(7).is_none());
    assert!(a.offer_object(7, &file));
    assert!(a.offer_object(7, &file));
    assert_eq!(b.serve_socket(), Served::default());
    {
        let mapped = b.peer().object(7).expect("mapped");
        assert!(mapped.is_writable());
        assert_eq!(mapped.span().len_bytes(), BYTES);
        mapped.span().part(100, 5).expect("inside").write(b"hello");
    }
    let mut seen = [0; 5];
    rustix::io::pread(&*file.fd, &mut seen, 100).expect("read");
    assert_eq!(&seen, b"hello");
    assert!(a.withdraw_object(7));
    b.serve_socket();
    assert!(b.peer().object(7).is_none() && b.peer().object(8).is_none());
    assert_eq!(b.objects_refused(), 0);
}

#[test]
fn an_object_may_be_a_part_of_a_file() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let file = ObjectFile { start: 4096, len_bytes: 4096, ..object() };
    rustix::io::pwrite(&*file.fd, b"here", 4096 + 10).expect("written");
    a.offer_object(3, &file);
    b.serve_socket();
    let mapped = b.peer().object(3).expect("mapped");
    let mut seen = [0; 4];
    mapped.span().part(10, 4).expect("inside").read(&mut seen);
    assert_eq!((&seen, mapped.span().len_bytes()), (b"here", 4096));
}

#[test]
fn an_object_that_was_told_of_is_there_at_once() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    assert!(a.offer_object(1, &object()) && a.offer_object(2, &object()));
    assert!(b.peer().object(2).is_none());
    assert!(b.object(2).is_some() && b.peer().object(1).is_some());
    assert!(b.object(3).is_none());
    // Messages that need an answer stay for `serve_socket`.
    assert!(a.want_object(9) && a.offer_object(3, &object()) && a.withdraw_object(1));
    assert!(b.object(3).is_none() && b.object(1).is_some());
    assert_eq!(b.serve_socket().wanted, [9]);
    assert!(b.object(3).is_some() && b.object(1).is_none());
}

#[test]
fn an_object_is_unmapped_only_when_nobody_holds_it() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    a.offer_object(1, &object());
    b.serve_socket();
    let held = b.peer().object(1).expect("mapped");
    a.withdraw_object(1);
    assert!(b.serve_socket().withdrawn);
    assert!(b.peer().object(1).is_none());
    held.span().part(0, 8).expect("inside").write(&[1; 8]);
    assert_eq!(b.peer().objects.count(), 0);
    assert!(!b.serve_socket().withdrawn);
}

#[test]
fn objects_that_could_shrink_or_are_no_memory_are_refused() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let unsealed = sys::memfd(c"test", BYTES).expect("a memfd");
    a.offer_object(1, &whole(unsealed, BYTES as u64));
    a.offer_object(2, &whole(couple.bells[0].try_clone().expect("a descriptor"), BYTES as u64));
    a.offer_object(3, &whole(sealed(), BYTES as u64 + 1));
    a.offer_object(4, &whole(sealed(), 0));
    // Beyond the end, not at a page boundary, or beyond the largest file.
    for (number, start) in (5..).zip([4097, 1, 4096 + 1, BYTES as u64, u64::MAX - 4095]) {
        a.offer_object(number, &ObjectFile { start, len_bytes: 4096, ..object() });
    }
    b.serve_socket();
    assert_eq!((b.objects_refused(), b.peer().objects.count()), (9, 0));
    assert!(!b.is_dead());
    // A file that cannot be written is mapped for reading.
    let read_only = sealed();
    sys::seal(read_only.as_fd(), libc::F_SEAL_FUTURE_WRITE).expect("sealed");
    a.offer_object(20, &whole(read_only, BYTES as u64));
    b.serve_socket();
    assert!(b.peer().object(20).is_some_and(|object| !object.is_writable()));
}

#[test]
fn queued_messages_arrive_later_and_in_order() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let file = object();
    let mut offered = 0;
    // More than any socket holds, and more than may wait.
    while offered < 3000 && a.offer_object(offered, &file) {
        offered += 1;
    }
    assert!(offered > 500);
    for _ in 0..100 {
        b.serve_socket();
        a.serve_socket();
    }
    assert_eq!(b.peer().objects.count(), offered as usize);
    assert!((0..offered).all(|object| b.peer().object(object).is_some()));
}

#[test]
fn a_flood_of_objects_ends_at_the_limit() {
    let couple = Couple::new();
    let objects = &couple.links[0].peer().objects;
    let fd = sealed();
    let extent = Extent { start: 0, len_bytes: BYTES as u64 };
    let insert = |number: u32| objects.insert(number, extent, fd.try_clone().expect("a descriptor"));
    for number in 0..MAX_OBJECTS as u32 {
        assert_eq!(insert(number), Ok(()));
    }
    assert_eq!(insert(MAX_OBJECTS as u32), Err(NotMapped::Full));
    assert_eq!(insert(3), Err(NotMapped::Twice));
    // Object numbers are never used again, but the room in the table is.
    for number in 0..20_000 {
        assert!(objects.remove(number));
        assert_eq!(insert(number + MAX_OBJECTS as u32), Ok(()));
    }
    assert_eq!(objects.count(), MAX_OBJECTS);
    assert!(objects.get(u32::MAX).is_none() && objects.get(20_000).is_some());
}

#[test]
fn requests_for_objects_arrive_and_death_is_seen() {
    let couple = Couple::new();
    let [a, b] = couple.links;
    assert!(a.want_object(11) && a.want_object(12));
    assert_eq!(b.serve_socket().wanted, [11, 12]);
    assert!(!b.is_dead());
    a.want_object(13);
    drop(a);
    assert_eq!(b.serve_socket().wanted, [13]);
    assert_eq!(b.death(), Some(Death::Gone));
    assert_eq!(b.serve_socket(), Served::default());
}

#[test]
fn invalid_messages_end_the_link_and_leave_no_descriptor() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::IoSlice;
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("ours").count();
    let [whole, short, long] = [vec![1u8; 24], vec![2; 5], vec![2; 100]];
    let offered_without: Vec<u8> = [&1u32.to_ne_bytes()[..], &[0; 20]].concat();
    for message in [whole, short, long, offered_without] {
        let couple = Couple::new();
        let [a, b] = &couple.links;
        rustix::net::send(a.socket().expect("a socket"), &message, SendFlags::empty()).expect("sent");
        b.serve_socket();
        assert_eq!(b.death(), Some(Death::BrokenSocket), "{message:?}");
        assert!(!a.is_dead());
    }
    // More descriptors than a message may have, and some without an offer. Many are sent, since other tests
    // open and close descriptors too.
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let fds = [couple.bells[0].as_fd(); 200];
    let message: Vec<u8> = [&2u32.to_ne_bytes()[..], &[0; 20]].concat();
    let before = descriptors();
    for _ in 0..20 {
        let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(a.socket().expect("a socket"), &[IoSlice::new(&message)], &mut control, SendFlags::DONTWAIT)
            .expect("sent");
        b.serve_socket();
    }
    assert!(descriptors() < before + 3000);
    assert!(!b.is_dead());
}
