//! Two ends of a link within one process, for tests.

use std::os::fd::{AsFd, OwnedFd};

use memory::{RemoteKeys, Span};

use crate::{Export, IntroducedPeer, Link, LinkSide};

/// The exports of two processes and the two ends of a link.
pub(crate) struct Couple {
    pub(crate) exports: [Export; 2],
    pub(crate) links: [Link; 2],
    pub(crate) bells: [OwnedFd; 2],
}

/// Keys without secrets: every rkey leads to some slot.
pub(crate) fn plain_keys() -> Box<RemoteKeys> {
    RemoteKeys::from_words(&[0; RemoteKeys::WORDS]).expect("as many words")
}

pub(crate) fn bell() -> OwnedFd {
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    rustix::event::eventfd(0, flags).expect("an eventfd")
}

pub(crate) fn introduction(export: &Export, bell: &OwnedFd) -> IntroducedPeer {
    let export = export.fd().try_clone_to_owned().expect("a descriptor");
    IntroducedPeer { export, wake: bell.try_clone().expect("a descriptor"), pid: std::process::id() }
}

/// The number of times that a bell was rung since the last call.
pub(crate) fn rung(bell: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(bell.as_fd(), &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        _ => 0,
    }
}

impl Couple {
    pub(crate) fn new() -> Couple {
        let exports = [(); 2].map(|()| Export::new(&plain_keys()).expect("an export"));
        let bells = [bell(), bell()];
        let (ours, theirs) = Link::create().expect("a link");
        let one = Link::open(ours, introduction(&exports[1], &bells[1]), LinkSide::Asked).expect("one end");
        let other = Link::open(theirs, introduction(&exports[0], &bells[0]), LinkSide::Offered).expect("the other end");
        Couple { exports, links: [one, other], bells }
    }

    /// All memory that both ends can reach.
    pub(crate) fn link_memory(&self) -> Span<'_> {
        self.links[0].area.mapping().span()
    }
}
