//! The sockets of the UDP port, one for each slot; their owners; and the keeper.

use super::error::HubError;
use super::keeper::{self, Keeper, KeeperError};
use super::response::ClientId;
use super::slot_table::{PortSlotTable, SlotClaim};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use udp::PortGroup;

/// All slots of this hub.
#[derive(Debug)]
pub(super) struct SlotGroup {
    ports: PortGroup,
    table: PortSlotTable,
    keeper: Keeper,
    cookies: Vec<u64>,
    recovered: bool,
}

impl SlotGroup {
    /// Binds the sockets and opens slot 0.
    pub(super) fn bind(slots: usize, namespace: u64) -> Result<SlotGroup, HubError> {
        let ports = PortGroup::bind(slots)?;
        let sockets: Vec<BorrowedFd<'_>> = ports.descriptors().collect();
        let keeper = Keeper::new(&sockets, namespace)
            .map_err(HubError::system("keep the sockets of the port for the next hub"))?;
        let table = PortSlotTable::new(slots);
        let group = SlotGroup::assemble(ports, table, keeper, false)
            .map_err(HubError::system("identify the sockets of the port"))?;
        group.ports.open_slot(0).map_err(HubError::system("open slot 0"))?;
        Ok(group)
    }

    /// Takes over the sockets of a dead hub from a keeper that a client sent.
    pub(super) fn recover(keeper: OwnedFd, namespace: u64) -> Result<SlotGroup, KeeperError> {
        let (keeper, sockets) = Keeper::open(keeper, namespace)?;
        let ports = PortGroup::from_descriptors(sockets).map_err(|error| KeeperError::NoKeeper(error.to_string()))?;
        let open = ports.descriptors().map(|socket| sys::has_filter(socket).map(|closed| !closed));
        let table = PortSlotTable::recovered(&open.collect::<io::Result<Vec<bool>>>()?);
        Ok(SlotGroup::assemble(ports, table, keeper, true)?)
    }

    fn assemble(ports: PortGroup, table: PortSlotTable, keeper: Keeper, recovered: bool) -> io::Result<SlotGroup> {
        let cookies = ports.descriptors().map(rustix::net::sockopt::socket_cookie);
        let cookies = cookies.collect::<Result<_, _>>()?;
        Ok(SlotGroup { ports, table, keeper, cookies, recovered })
    }

    /// Whether an earlier hub bound the sockets.
    pub(super) fn recovered(&self) -> bool {
        self.recovered
    }

    /// Number of slots for clients.
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Number of slots without an owner.
    pub(super) fn free(&self) -> usize {
        self.table.free()
    }

    /// Receive buffer of each socket, as the kernel accounts it.
    pub(super) fn receive_buffer_bytes(&self) -> u64 {
        self.ports.receive_buffer_bytes() as u64
    }

    /// A copy of the keeper for a client.
    pub(super) fn keeper(&self) -> io::Result<OwnedFd> {
        self.keeper.as_fd().try_clone_to_owned()
    }

    /// A copy of a slot's socket.
    pub(super) fn socket(&self, slot: u8) -> io::Result<OwnedFd> {
        let socket = self.ports.slot(slot.into()).ok_or(io::ErrorKind::InvalidInput)?;
        socket.try_clone_to_owned()
    }

    /// Opens a free slot for a new owner. `Ok(None)` if none is free.
    pub(super) fn assign(&mut self, wanted: Option<u8>, owner: ClientId) -> io::Result<Option<(u8, OwnedFd)>> {
        let Some(slot) = self.table.take(wanted, owner) else { return Ok(None) };
        match self.ports.open_slot(slot.into()).and_then(|()| self.socket(slot)) {
            Ok(socket) => Ok(Some((slot, socket))),
            Err(error) => {
                self.release(&[slot], owner);
                Err(error)
            }
        }
    }

    /// Opens several free slots for one owner, all or none. `Ok(None)` if there are not enough.
    pub(super) fn assign_many(&mut self, count: u8, owner: ClientId) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut slots = Vec::new();
        let mut sockets = Vec::new();
        for _ in 0..count {
            let assigned = self.assign(None, owner);
            if let Ok(Some((slot, socket))) = assigned {
                slots.push(slot);
                sockets.push(socket);
                continue;
            }
            self.release(&slots, owner);
            return assigned.map(|_| None);
        }
        Ok(Some((slots, sockets)))
    }

    /// Gives a slot to the client that had it under an earlier hub; `proof` is the client's copy of the
    /// slot's socket. Returns whether the proof is good and no other client has the slot.
    pub(super) fn reassign(&mut self, slot: u8, proof: BorrowedFd<'_>, owner: ClientId) -> io::Result<bool> {
        let cookie = self.cookies.get(usize::from(slot));
        if !cookie.is_some_and(|cookie| keeper::is_same_socket(proof, *cookie)) {
            return Ok(false);
        }
        match self.table.claim(slot, owner) {
            SlotClaim::Refused => return Ok(false),
            SlotClaim::StillOpen => {}
            SlotClaim::WasClosed => self.ports.open_slot(slot.into())?,
        }
        Ok(true)
    }

    /// Closes those of the slots that are `owner`'s, and frees them.
    pub(super) fn release(&mut self, slots: &[u8], owner: ClientId) {
        for slot in slots {
            if self.table.release(*slot, owner) {
                self.close(*slot);
            }
        }
    }

    /// Closes the slots that no client of the dead hub has claimed.
    pub(super) fn free_orphans(&mut self) {
        for slot in self.table.free_orphans() {
            log::info!("no client came back for slot {slot}");
            self.close(slot);
        }
    }

    fn close(&self, slot: u8) {
        if let Err(error) = self.ports.close_slot(slot.into()) {
            log::warn!("slot {slot} stays open: {error}");
        }
    }
}
