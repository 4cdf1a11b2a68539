//! Introducing two clients to each other, so that they can share memory.
//!
//! ```text
//!   asker                            hub                             asked
//!     |--- Introduce [link, socket] ->|                                |
//!     |                               |- Introduction [link, socket, ->|
//!     |                               |    asker's export and wake]    |
//!     |<- Introduced [asked one's ----|                                |
//!     |        export and wake]       |                                |
//! ```
//!
//! Both hear of each other by their own connections, which nobody else can write to, so each
//! can trust that the descriptors are those of the process with these slots. What is in them,
//! the hub does not look at. How many processes a client can be introduced to is limited by
//! the number of slots, as each has one.

use super::connection::{Connection, ShmOffer};
use super::server::{Answer, Server};
use crate::message::{IntroductionRefusal, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Who has been introduced to whom, by connection.
#[derive(Debug, Default)]
pub(super) struct Introductions {
    partners: BTreeMap<u64, BTreeSet<u64>>,
}

impl Introductions {
    /// Whether the two know each other, whoever asked.
    fn contains(&self, a: u64, b: u64) -> bool {
        self.partners.get(&a).is_some_and(|partners| partners.contains(&b))
    }

    fn add(&mut self, a: u64, b: u64) {
        self.partners.entry(a).or_default().insert(b);
        self.partners.entry(b).or_default().insert(a);
    }

    /// A connection is over, and all its introductions with it.
    pub(super) fn forget(&mut self, id: u64) {
        for partner in self.partners.remove(&id).unwrap_or_default() {
            if let Some(partners) = self.partners.get_mut(&partner) {
                partners.remove(&id);
            }
        }
    }

    /// To how many others a connection has been introduced.
    pub(super) fn count(&self, id: u64) -> u32 {
        self.partners.get(&id).map_or(0, |partners| partners.len() as u32)
    }
}

/// A client as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Party<'a> {
    id: u64,
    uid: u32,
    slots: &'a [u8],
    offer: Option<&'a ShmOffer>,
}

impl<'a> Party<'a> {
    fn new(id: u64, connection: &'a Connection) -> Party<'a> {
        let offer = connection.belongings.shm.as_ref();
        Party { id, uid: connection.peer.uid, slots: &connection.slots, offer }
    }
}

/// The offers of two who may be introduced to each other.
///
/// The hub talks to no other user's processes at all; that it introduces none does not depend
/// on it.
fn offers<'a>(
    asker: Party<'a>,
    asked: Party<'a>,
    known: &Introductions,
) -> Result<(&'a ShmOffer, &'a ShmOffer), IntroductionRefusal> {
    if asker.id == asked.id {
        return Err(IntroductionRefusal::Yourself);
    }
    if asker.uid != asked.uid {
        return Err(IntroductionRefusal::OtherUser);
    }
    let offers = asker.offer.zip(asked.offer).ok_or(IntroductionRefusal::NoOffer)?;
    if known.contains(asker.id, asked.id) {
        return Err(IntroductionRefusal::Already { slots: asked.slots.to_vec() });
    }
    Ok(offers)
}

impl Server {
    /// Introduces a client to the one that has `slot`. The descriptors are the link and the
    /// socket.
    pub(super) fn introduce(&mut self, id: u64, slot: u8, descriptors: Vec<OwnedFd>) -> Answer {
        let Ok([link, socket]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return self.malformed("an introduction takes two descriptors".into());
        };
        match self.bring_together(id, slot, &link, &socket) {
            Ok(answer) => answer,
            Err(refusal) => Answer::Say(Reply::NotIntroduced { slot, refusal }, Vec::new()),
        }
    }

    fn bring_together(
        &mut self,
        id: u64,
        slot: u8,
        link: &OwnedFd,
        socket: &OwnedFd,
    ) -> Result<Answer, IntroductionRefusal> {
        let asker = self.connections.get(&id).ok_or(IntroductionRefusal::UnknownSlot)?;
        let owner = self.connections.iter().find(|(_, connection)| connection.slots.contains(&slot));
        let (asked_id, asked) = owner.ok_or(IntroductionRefusal::UnknownSlot)?;
        let (own, others) = offers(Party::new(id, asker), Party::new(*asked_id, asked), &self.introductions)?;
        let descriptors = copies(others).map_err(|_| IntroductionRefusal::System)?;
        let first = asker.slots.first().copied().ok_or(IntroductionRefusal::System)?;
        let note = Reply::Introduction { slot: first, slots: asker.slots.clone(), pid: asker.peer.pid };
        let along = [link.as_fd(), socket.as_fd(), own.export.as_fd(), own.wake.as_fd()];
        asked.say_at_once(&note, &along).map_err(|error| refusal_after(&error))?;
        log::debug!("introduced processes {} and {} to each other", asker.pid, asked.pid);
        let answer = Reply::Introduced { slot, slots: asked.slots.clone(), pid: asked.peer.pid };
        self.introductions.add(id, *asked_id);
        self.counters.introduced += 1;
        Ok(Answer::Say(answer, descriptors))
    }
}

fn copies(offer: &ShmOffer) -> io::Result<Vec<OwnedFd>> {
    Ok(vec![offer.export.try_clone()?, offer.wake.try_clone()?])
}

/// What it means that the asked one could not be told. One that is just gone does not listen,
/// either.
fn refusal_after(error: &io::Error) -> IntroductionRefusal {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            IntroductionRefusal::NotListening
        }
        _ => {
            log::warn!("cannot introduce a process: {error}");
            IntroductionRefusal::System
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn offer() -> ShmOffer {
        let null = || File::open("/dev/null").unwrap().into();
        ShmOffer { export: null(), wake: null() }
    }

    #[test]
    fn who_may_be_introduced_to_whom() {
        let (offer, mut known) = (offer(), Introductions::default());
        let a = Party { id: 1, uid: 1000, slots: &[1], offer: Some(&offer) };
        let b = Party { id: 2, uid: 1000, slots: &[2, 7], offer: Some(&offer) };
        assert!(offers(a, b, &known).is_ok());
        let refused = |a, b, known: &Introductions| offers(a, b, known).map(drop).unwrap_err();
        assert_eq!(refused(a, a, &known), IntroductionRefusal::Yourself);
        let silent = Party { offer: None, ..b };
        assert_eq!(refused(a, silent, &known), IntroductionRefusal::NoOffer);
        assert_eq!(refused(silent, a, &known), IntroductionRefusal::NoOffer);
        for uid in [0, 1001, u32::MAX] {
            let stranger = Party { uid, ..b };
            assert_eq!(refused(a, stranger, &known), IntroductionRefusal::OtherUser);
            assert_eq!(refused(stranger, a, &known), IntroductionRefusal::OtherUser);
        }
        known.add(1, 2);
        assert_eq!(refused(a, b, &known), IntroductionRefusal::Already { slots: vec![2, 7] });
        assert_eq!(refused(b, a, &known), IntroductionRefusal::Already { slots: vec![1] });
    }

    #[test]
    fn who_goes_is_forgotten_by_all() {
        let mut known = Introductions::default();
        known.add(1, 2);
        known.add(3, 1);
        known.add(2, 3);
        assert_eq!([1, 2, 3, 4].map(|id| known.count(id)), [2, 2, 2, 0]);
        known.forget(1);
        assert_eq!([1, 2, 3].map(|id| known.count(id)), [0, 1, 1]);
        assert!(known.contains(3, 2) && known.contains(2, 3) && !known.contains(2, 1));
        known.forget(9);
        known.forget(3);
        known.forget(2);
        assert!(known.partners.is_empty());
    }
}
