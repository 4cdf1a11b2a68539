//! The port's sockets, who has which, and the keeper.

use super::error::HubError;
use crate::keeper::{self, Keeper, KeeperError};
use crate::slots::{Claim, Owner, SlotTable};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use udp::PortGroup;

/// The port group of this hub.
#[derive(Debug)]
pub(super) struct Group {
    ports: PortGroup,
    table: SlotTable,
    keeper: Keeper,
    cookies: Vec<u64>,
    recovered: bool,
}

impl Group {
    /// Binds a new group. Slot 0 is open.
    pub(super) fn bind(slots: usize, namespace: u64) -> Result<Group, HubError> {
        let ports = PortGroup::bind(slots)?;
        let sockets: Vec<BorrowedFd<'_>> = ports.descriptors().collect();
        let keeper = Keeper::new(&sockets, namespace)
            .map_err(HubError::system("keep the sockets of the port for its successor"))?;
        let table = SlotTable::new(slots);
        let group = Group::assemble(ports, table, keeper, false)
            .map_err(HubError::system("identify the sockets of the port"))?;
        group.ports.open_slot(0).map_err(HubError::system("open slot 0"))?;
        Ok(group)
    }

    /// Takes over the group of a hub that died, from a keeper that a client brought.
    pub(super) fn recover(keeper: OwnedFd, namespace: u64) -> Result<Group, KeeperError> {
        let (keeper, sockets) = Keeper::open(keeper, namespace)?;
        let ports = PortGroup::from_descriptors(sockets).map_err(|error| KeeperError::NoKeeper(error.to_string()))?;
        let open = ports.descriptors().map(|socket| sys::has_filter(socket).map(|closed| !closed));
        let table = SlotTable::recovered(&open.collect::<io::Result<Vec<bool>>>()?);
        Ok(Group::assemble(ports, table, keeper, true)?)
    }

    fn assemble(ports: PortGroup, table: SlotTable, keeper: Keeper, recovered: bool) -> io::Result<Group> {
        let cookies = ports.descriptors().map(rustix::net::sockopt::socket_cookie);
        let cookies = cookies.collect::<Result<_, _>>()?;
        Ok(Group { ports, table, keeper, cookies, recovered })
    }

    /// Whether it was taken over.
    pub(super) fn recovered(&self) -> bool {
        self.recovered
    }

    /// Number of slots for clients.
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Number of slots that could be handed out.
    pub(super) fn free(&self) -> usize {
        self.table.free()
    }

    /// Receive buffer of each socket.
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
    pub(super) fn hand_out(&mut self, wanted: Option<u8>, owner: Owner) -> io::Result<Option<(u8, OwnedFd)>> {
        let Some(slot) = self.table.take(wanted, owner) else { return Ok(None) };
        match self.ports.open_slot(slot.into()).and_then(|()| self.socket(slot)) {
            Ok(socket) => Ok(Some((slot, socket))),
            Err(error) => {
                self.take_back(slot, owner);
                Err(error)
            }
        }
    }

    /// Opens several free slots for one owner, all or none. `Ok(None)` if there are not enough.
    pub(super) fn hand_out_all(&mut self, count: u8, owner: Owner) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut slots = Vec::new();
        let mut sockets = Vec::new();
        for _ in 0..count {
            let handed = self.hand_out(None, owner);
            if let Ok(Some((slot, socket))) = handed {
                slots.push(slot);
                sockets.push(socket);
                continue;
            }
            for slot in slots {
                self.take_back(slot, owner);
            }
            return handed.map(|_| None);
        }
        Ok(Some((slots, sockets)))
    }

    /// Gives a slot back to the owner that it had under an earlier hub, as proven by its
    /// socket. Returns whether it could be had.
    pub(super) fn give_again(&mut self, slot: u8, proof: BorrowedFd<'_>, owner: Owner) -> io::Result<bool> {
        let cookie = self.cookies.get(usize::from(slot));
        if !cookie.is_some_and(|cookie| keeper::is_same_socket(proof, *cookie)) {
            return Ok(false);
        }
        match self.table.claim(slot, owner) {
            Claim::Refused => return Ok(false),
            Claim::StillOpen => {}
            Claim::WasClosed => self.ports.open_slot(slot.into())?,
        }
        Ok(true)
    }

    /// Closes a slot whose owner has gone. Returns whether it was `owner`'s.
    pub(super) fn take_back(&mut self, slot: u8, owner: Owner) -> bool {
        let owned = self.table.release(slot, owner);
        if owned {
            self.close(slot);
        }
        owned
    }

    /// Closes the slots whose owners did not come back.
    pub(super) fn settle(&mut self) {
        for slot in self.table.settle() {
            log::info!("nobody came back for slot {slot}");
            self.close(slot);
        }
    }

    fn close(&self, slot: u8) {
        if let Err(error) = self.ports.close_slot(slot.into()) {
            log::warn!("slot {slot} stays open: {error}");
        }
    }
}
