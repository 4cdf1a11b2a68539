use core::sync::atomic::AtomicBool;
use std::collections::HashSet;
use std::os::fd::AsFd;

use super::*;
use crate::Export;
use crate::testing::{Couple, bell, introduction, plain_keys};

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_link_is_up_when_both_have_confirmed() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    assert_eq!((a.standing(), a.side(), b.side()), (Standing::Pending, LinkSide::Asked, LinkSide::Offered));
    assert_eq!(a.confirm(), Standing::Pending);
    assert_eq!(b.confirm(), Standing::Up);
    assert!(a.wait_confirmed(PATIENCE) && b.wait_confirmed(Duration::ZERO) && a.decide());
}

#[test]
fn an_end_that_gives_up_fails_the_link_for_both() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    a.confirm();
    assert!(!a.wait_confirmed(Duration::from_millis(1)));
    assert_eq!(b.confirm(), Standing::Failed);
    assert!(!b.decide());
}

#[test]
fn a_peer_that_is_gone_is_not_waited_for() {
    let couple = Couple::new();
    let [a, b] = couple.links;
    let _held = a.enter(4);
    core::mem::forget(b.enter(5));
    drop(b);
    a.confirm();
    assert!(!a.wait_confirmed(PATIENCE));
    a.wait_for_peer_accesses();
    assert_eq!(a.death(), Some(Death::Gone));
    assert!(a.is_dead() && !a.peer().is_alive());
    assert!(a.producer(0).reserve(8).is_none());
}

#[test]
fn a_peer_that_ends_no_access_loses_the_link() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let _held = a.enter(4);
    b.wait_for_accesses(Duration::from_millis(20));
    assert_eq!(b.death(), Some(Death::Stuck));
    // No further call waits, and both ends see the death.
    b.wait_for_peer_accesses();
    assert!(
        rustix::event::poll(
            &mut [rustix::event::PollFd::new(&a.socket().expect("a socket"), rustix::event::PollFlags::IN)],
            None
        )
        .is_ok()
    );
    a.serve_socket();
    b.serve_socket();
    assert_eq!((a.death(), b.death()), (Some(Death::Gone), Some(Death::Stuck)));
    assert!(b.producer(0).reserve(8).is_none() && a.producer(0).reserve(8).is_none());
}

#[test]
fn an_access_that_goes_on_is_told_and_the_link_stays() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    assert!(b.peer_accesses_end_within(Duration::ZERO));
    let held = a.enter(4);
    assert!(!b.peer_accesses_end_within(Duration::from_millis(20)));
    assert_eq!(b.death(), None);
    // Nor is it forgotten when the link dies meanwhile.
    b.die(Death::Stuck);
    assert!(!b.peer_accesses_end_within(Duration::from_millis(1)));
    drop(held);
    assert!(b.peer_accesses_end_within(Duration::ZERO));
}

#[test]
fn the_owner_waits_for_accesses_that_began_before() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    b.wait_for_peer_accesses();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = a.enter(70);
        let waiter = scope.spawn(|| {
            b.wait_for_peer_accesses();
            assert!(ended.load(SeqCst), "it came back before the access was over");
        });
        // Other accesses come and go meanwhile, on the same word.
        for _ in 0..100 {
            drop(a.enter(6));
            std::thread::sleep(Duration::from_micros(20));
        }
        ended.store(true, SeqCst);
        drop(first);
        waiter.join().expect("it waited");
    });
}

#[test]
fn more_accesses_than_words_wait_for_each_other() {
    let couple = Couple::new();
    let a = &couple.links[0];
    let mut held: Vec<_> = (0..HAZARDS).map(|_| a.enter(9).expect("a word of its own")).collect();
    assert_eq!(held.iter().map(|hazard| &raw const *hazard.word).collect::<HashSet<_>>().len(), HAZARDS);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| a.enter(9).is_some());
        std::thread::sleep(Duration::from_millis(5));
        assert!(!waiter.is_finished(), "all words are taken");
        held.pop();
        assert!(waiter.join().expect("no panic"));
    });
    // If no word becomes free (the peer has written them, or a thread hangs), the death of the link ends the
    // wait.
    let last = a.enter(9);
    a.die(Death::Stuck);
    assert!(a.enter(9).is_none());
    drop((last, held));
}

#[test]
fn a_wait_ends_although_others_keep_coming() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut held = a.enter(1);
                while !stop.load(Relaxed) {
                    // The next access begins before the last one ends: some word is always taken.
                    held = a.enter(1);
                    std::thread::yield_now();
                }
                drop(held);
            });
        }
        for _ in 0..20 {
            b.wait_for_peer_accesses();
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn files_are_refused_that_are_not_ours() {
    let export = Export::new(&plain_keys()).expect("an export");
    let bell = bell();
    let open = |file: OwnedFd, with: IntroducedPeer| {
        let (ends, _theirs) = Link::create().expect("a link");
        Link::open(LinkEnds { link: file, ..ends }, with, LinkSide::Asked)
    };
    let good = || Link::create().expect("a link").0.link;
    assert!(open(good(), introduction(&export, &bell)).is_ok());

    let unsealed = sys::memfd(c"test", size_of::<LinkArea>()).expect("a memfd");
    assert!(matches!(open(unsealed, introduction(&export, &bell)), Err(LinkError::Unsealed)));
    let short = sys::memfd(c"test", 4096).expect("a memfd");
    sys::seal(short.as_fd(), libc::F_SEAL_SHRINK).expect("sealed");
    assert!(matches!(open(short, introduction(&export, &bell)), Err(LinkError::Foreign)));
    let empty = sys::memfd(c"test", size_of::<LinkArea>()).expect("a memfd");
    sys::seal(empty.as_fd(), libc::F_SEAL_SHRINK).expect("sealed");
    assert!(matches!(open(empty, introduction(&export, &bell)), Err(LinkError::Foreign)));
    let no_file = bell.try_clone().expect("a descriptor");
    assert!(matches!(open(no_file, introduction(&export, &bell)), Err(LinkError::Unsealed)));

    let with = IntroducedPeer { export: good(), ..introduction(&export, &bell) };
    assert!(matches!(open(good(), with), Err(LinkError::Foreign)));
}
