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
//! Each client hears of the other by its own connection to the hub, which no other process can write to.
//! So each can trust that the descriptors are those of the process with these slots. The hub does not
//! read what is behind them. The number of slots limits the introductions of a client, as each process
//! has one.
//!
//! Outside this module: it does not know slots and offers (`attachments`), nor connections (`clients`).

use super::attachments::{AttachedClient, Attachments, ShmDescriptors};
use super::clients::Clients;
use super::response::{ClientId, ClientResponse};
use crate::message::{IntroductionRefusal, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The pairs of clients that were introduced to each other.
#[derive(Debug, Default)]
pub(super) struct Introductions {
    partners: BTreeMap<ClientId, BTreeSet<ClientId>>,
}

impl Introductions {
    /// Introduces `id` to the client that has `slot`, if that is allowed. The message to the asked client goes
    /// past its outbox: a client that does not read is not introduced.
    pub(super) fn introduce(
        &mut self,
        clients: &Clients,
        attachments: &Attachments,
        id: ClientId,
        slot: u8,
        [link, socket]: &[OwnedFd; 2],
    ) -> Result<ClientResponse, IntroductionRefusal> {
        let asker = attachments.get(id).expect("only an attached client asks for an introduction");
        let (asked_id, asked) = attachments.owner(slot).ok_or(IntroductionRefusal::UnknownSlot)?;
        let (own, others) = self.offers((id, asker), (asked_id, asked))?;
        let descriptors = copies(others).map_err(|_| IntroductionRefusal::System)?;
        let note = Reply::Introduction { slot: asker.slots[0], slots: asker.slots.clone(), pid: asker.peer.pid };
        let along = [link.as_fd(), socket.as_fd(), own.export.as_fd(), own.wake.as_fd()];
        clients.send_now(asked_id, &note, &along).map_err(|error| refusal_after(&error))?;
        log::debug!("introduced processes {} and {} to each other", asker.peer.pid, asked.peer.pid);
        self.record(id, asked_id);
        let answer = Reply::Introduced { slot, slots: asked.slots.clone(), pid: asked.peer.pid };
        Ok(ClientResponse::Reply(answer, descriptors))
    }

    /// The offers of two clients that may be introduced to each other.
    ///
    /// The hub refuses connections of other users; the check of the user here does not rely on that.
    fn offers<'a>(
        &self,
        (asker_id, asker): (ClientId, &'a AttachedClient),
        (asked_id, asked): (ClientId, &'a AttachedClient),
    ) -> Result<(&'a ShmDescriptors, &'a ShmDescriptors), IntroductionRefusal> {
        if asker_id == asked_id {
            return Err(IntroductionRefusal::Yourself);
        }
        if asker.peer.uid != asked.peer.uid {
            return Err(IntroductionRefusal::OtherUser);
        }
        let offers = asker.shm().zip(asked.shm()).ok_or(IntroductionRefusal::NoOffer)?;
        if self.contains(asker_id, asked_id) {
            return Err(IntroductionRefusal::Already { slots: asked.slots.clone() });
        }
        Ok(offers)
    }

    /// Whether the two were introduced, in either direction.
    fn contains(&self, a: ClientId, b: ClientId) -> bool {
        self.partners.get(&a).is_some_and(|partners| partners.contains(&b))
    }

    fn record(&mut self, a: ClientId, b: ClientId) {
        assert_ne!(a, b, "`offers` refuses that");
        self.partners.entry(a).or_default().insert(b);
        self.partners.entry(b).or_default().insert(a);
    }

    /// Forgets a client that is gone.
    pub(super) fn remove(&mut self, id: ClientId) {
        for partner in self.partners.remove(&id).unwrap_or_default() {
            let partners = self.partners.get_mut(&partner).expect("introductions are mutual");
            partners.remove(&id);
            if partners.is_empty() {
                self.partners.remove(&partner);
            }
        }
    }

    /// The number of clients that a client was introduced to.
    pub(super) fn count(&self, id: ClientId) -> u32 {
        self.partners.get(&id).map_or(0, |partners| partners.len() as u32)
    }
}

fn copies(offer: &ShmDescriptors) -> io::Result<Vec<OwnedFd>> {
    Ok(vec![offer.export.try_clone()?, offer.wake.try_clone()?])
}

/// The refusal when the asked client could not be told. A client that is just gone counts as one that does not
/// listen.
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
    use crate::daemon::attachments::ClientFiles;
    use crate::sys::PeerProcess;
    use std::fs::File;

    fn client(uid: u32, slots: &[u8], offers: bool) -> AttachedClient {
        let null = || File::open("/dev/null").unwrap().into();
        let descriptors = if offers { vec![null(), null()] } else { Vec::new() };
        let files = ClientFiles::take(false, offers, descriptors).expect("as many as announced");
        AttachedClient::new(PeerProcess { pid: 7, uid }, slots.to_vec(), files)
    }

    fn refused(
        known: &Introductions,
        asker: (ClientId, &AttachedClient),
        asked: (ClientId, &AttachedClient),
    ) -> IntroductionRefusal {
        known.offers(asker, asked).map(drop).unwrap_err()
    }

    #[test]
    fn clients_that_may_be_introduced() {
        let mut known = Introductions::default();
        let (a, b) = (client(1000, &[1], true), client(1000, &[2, 7], true));
        assert!(known.offers((1, &a), (2, &b)).is_ok());
        assert_eq!(refused(&known, (1, &a), (1, &a)), IntroductionRefusal::Yourself);
        let silent = client(1000, &[2, 7], false);
        assert_eq!(refused(&known, (1, &a), (2, &silent)), IntroductionRefusal::NoOffer);
        assert_eq!(refused(&known, (2, &silent), (1, &a)), IntroductionRefusal::NoOffer);
        for uid in [0, 1001, u32::MAX] {
            let stranger = client(uid, &[2, 7], true);
            assert_eq!(refused(&known, (1, &a), (2, &stranger)), IntroductionRefusal::OtherUser);
            assert_eq!(refused(&known, (2, &stranger), (1, &a)), IntroductionRefusal::OtherUser);
        }
        known.record(1, 2);
        assert_eq!(refused(&known, (1, &a), (2, &b)), IntroductionRefusal::Already { slots: vec![2, 7] });
        assert_eq!(refused(&known, (2, &b), (1, &a)), IntroductionRefusal::Already { slots: vec![1] });
    }

    #[test]
    fn all_partners_forget_a_client() {
        let mut known = Introductions::default();
        known.record(1, 2);
        known.record(3, 1);
        known.record(2, 3);
        assert_eq!([1, 2, 3, 4].map(|id| known.count(id)), [2, 2, 2, 0]);
        known.remove(1);
        assert_eq!([1, 2, 3].map(|id| known.count(id)), [0, 1, 1]);
        assert!(known.contains(3, 2) && known.contains(2, 3) && !known.contains(2, 1));
        known.remove(9);
        known.remove(3);
        known.remove(2);
        assert!(known.partners.is_empty());
    }
}
