//! The attached clients: their slots, and the files that they leave with the hub.
//!
//! Outside this module: it sends nothing; the caller makes replies of the results.

use super::response::{ClientId, ClientResponse, RequestError};
use super::slot_group::SlotGroup;
use crate::counters::Snapshot;
use crate::message::{ErrorCode, HubRequest, Reply};
use crate::sys::PeerProcess;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most slots of one process.
const MAX_SLOTS_PER_CLIENT: usize = 64;

/// The files that an attached client leaves with the hub.
#[derive(Debug, Default)]
pub(super) struct ClientFiles {
    counters: Option<OwnedFd>,
    shm: Option<ShmDescriptors>,
}

/// The descriptors that the hub passes to each process that it introduces to this client.
#[derive(Debug)]
pub(super) struct ShmDescriptors {
    /// The client's exported memory.
    pub(super) export: OwnedFd,
    /// The client's doorbell.
    pub(super) wake: OwnedFd,
}

impl ClientFiles {
    /// Takes the descriptors of a request, if there are as many as the request says.
    pub(super) fn take(counters: bool, shm: bool, descriptors: Vec<OwnedFd>) -> Result<ClientFiles, RequestError> {
        if descriptors.len() != ClientFiles::count(counters, shm) {
            return Err(RequestError::Malformed("the request has the wrong number of descriptors".into()));
        }
        let mut rest = descriptors.into_iter();
        let counters = if counters { rest.next() } else { None };
        let shm = rest.next().zip(rest.next()).map(|(export, wake)| ShmDescriptors { export, wake });
        Ok(ClientFiles { counters, shm })
    }

    /// The number of descriptors in a request with these files.
    pub(super) fn count(counters: bool, shm: bool) -> usize {
        usize::from(counters) + 2 * usize::from(shm)
    }
}

/// One attached client.
#[derive(Debug)]
pub(super) struct AttachedClient {
    /// The process as the kernel names it.
    pub(super) peer: PeerProcess,
    /// Its slots, never none; the first one is its name in introductions.
    pub(super) slots: Vec<u8>,
    files: ClientFiles,
    since: Instant,
}

impl AttachedClient {
    pub(super) fn new(peer: PeerProcess, slots: Vec<u8>, files: ClientFiles) -> AttachedClient {
        assert!(!slots.is_empty(), "an attached client has a slot");
        AttachedClient { peer, slots, files, since: Instant::now() }
    }

    /// The descriptors for processes that share memory with it, if it offers any.
    pub(super) fn shm(&self) -> Option<&ShmDescriptors> {
        self.files.shm.as_ref()
    }

    /// Its counters now, if it has a page that can be read.
    pub(super) fn counters(&self) -> Option<Snapshot> {
        self.files.counters.as_ref().and_then(|page| Snapshot::read(page.as_fd()).ok())
    }

    /// The time since it attached to this hub.
    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// All attached clients.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    clients: BTreeMap<ClientId, AttachedClient>,
}

impl Attachments {
    pub(super) fn get(&self, id: ClientId) -> Option<&AttachedClient> {
        self.clients.get(&id)
    }

    /// All of them, in the order in which they connected.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &AttachedClient)> {
        self.clients.iter().map(|(id, client)| (*id, client))
    }

    /// The client that has a slot.
    pub(super) fn owner(&self, slot: u8) -> Option<(ClientId, &AttachedClient)> {
        self.iter().find(|(_, client)| client.slots.contains(&slot))
    }

    /// Gives a new client a slot, the `wanted` one if it is free. Returns the slot, and as descriptors
    /// the keeper and the slot's socket.
    pub(super) fn attach(
        &mut self,
        id: ClientId,
        peer: PeerProcess,
        group: &mut SlotGroup,
        wanted: Option<u8>,
        files: ClientFiles,
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), RequestError> {
        let keeper = group.keeper()?;
        let (slot, socket) = group.assign(wanted, id)?.ok_or_else(|| no_slot(group))?;
        self.insert(id, AttachedClient::new(peer, vec![slot], files));
        Ok((vec![slot], vec![keeper, socket]))
    }

    /// Gives a client of an earlier hub its slots again. A `proof` for each slot is a copy of its socket. Returns the
    /// keeper.
    pub(super) fn reattach(
        &mut self,
        id: ClientId,
        peer: PeerProcess,
        group: &mut SlotGroup,
        (slots, proofs): (&[u8], &[OwnedFd]),
        files: ClientFiles,
    ) -> Result<OwnedFd, RequestError> {
        assert_eq!(slots.len(), proofs.len(), "`check_slots` has compared them");
        let mut claim = |(slot, proof): (&u8, &OwnedFd)| group.reassign(*slot, proof.as_fd(), id);
        let outcome: io::Result<Vec<bool>> = slots.iter().zip(proofs).map(&mut claim).collect();
        let granted = outcome.and_then(|granted| Ok((granted, group.keeper()?)));
        let error = match granted {
            Ok((granted, keeper)) if granted.iter().all(|granted| *granted) => {
                self.insert(id, AttachedClient::new(peer, slots.to_vec(), files));
                return Ok(keeper);
            }
            Ok(_) => denied(format!("slots {slots:?} are not this process's any more")),
            Err(error) => error.into(),
        };
        group.release(slots, id);
        Err(error)
    }

    /// Handles an attached client's request for more or fewer slots.
    pub(super) fn change_slots(
        &mut self,
        id: ClientId,
        group: &mut SlotGroup,
        request: &HubRequest,
    ) -> Result<ClientResponse, RequestError> {
        match *request {
            HubRequest::MoreSlots { count } => self.add_slots(id, group, count),
            HubRequest::Release { slot } => self.release_slot(id, group, slot),
            _ => unreachable!("the caller passes requests about slots only"),
        }
    }

    /// Gives a client `count` more slots, all or none.
    fn add_slots(&mut self, id: ClientId, group: &mut SlotGroup, count: u8) -> Result<ClientResponse, RequestError> {
        let client = self.clients.get_mut(&id).expect("only an attached client asks for more slots");
        if count == 0 || client.slots.len() + usize::from(count) > MAX_SLOTS_PER_CLIENT {
            return Err(denied(format!("a process has at most {MAX_SLOTS_PER_CLIENT} slots")));
        }
        let (slots, sockets) = group.assign_many(count, id)?.ok_or_else(|| no_slot(group))?;
        client.slots.extend(&slots);
        Ok(ClientResponse::Reply(Reply::Slots { slots }, sockets))
    }

    /// Takes one slot back; a client keeps at least one.
    fn release_slot(&mut self, id: ClientId, group: &mut SlotGroup, slot: u8) -> Result<ClientResponse, RequestError> {
        let client = self.clients.get_mut(&id).expect("only an attached client gives slots back");
        if !client.slots.contains(&slot) || client.slots.len() == 1 {
            return Err(denied(format!("slot {slot} is not one that can be given back")));
        }
        client.slots.retain(|own| *own != slot);
        group.release(&[slot], id);
        Ok(Reply::Done.into())
    }

    /// Forgets a client. Returns the slots to take back, if it was attached.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<Vec<u8>> {
        Some(self.clients.remove(&id)?.slots)
    }

    fn insert(&mut self, id: ClientId, client: AttachedClient) {
        let before = self.clients.insert(id, client);
        assert!(before.is_none(), "a client attaches once");
    }
}

/// Checks that a request to reattach has distinct slots, not too many, and one proof for each.
pub(super) fn check_slots(slots: &[u8], proofs: usize) -> Result<(), RequestError> {
    let distinct = slots.iter().collect::<BTreeSet<_>>().len() == slots.len();
    if distinct && (1..=MAX_SLOTS_PER_CLIENT).contains(&slots.len()) && proofs == slots.len() {
        return Ok(());
    }
    Err(RequestError::Malformed(format!("the request has the wrong number of descriptors for slots {slots:?}")))
}

fn denied(reason: String) -> RequestError {
    RequestError::Denied(ErrorCode::NotYours, reason)
}

fn no_slot(group: &SlotGroup) -> RequestError {
    let reason = format!("not enough of the {} slots are free", group.capacity());
    RequestError::Denied(ErrorCode::NoSlot, reason)
}
