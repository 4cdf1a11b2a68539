//! The group of sockets that shares UDP port 4791 between processes.
//!
//! All sockets are bound to the port with `SO_REUSEPORT`, so they form one group in the kernel, numbered in
//! the order of binding. A classic BPF program reads the high byte of a packet's destination QPN, the *slot*.
//! The kernel gives the packet to the socket of that number. For an index past the end of the group it uses
//! its hash over addresses and ports instead. So the owner of any slot may see packets for other slots.
//!
//! The numbers hold only while **every** socket of the group stays open somewhere: if one is closed for good,
//! the last one takes its number. So each owner of a slot should hold copies of all descriptors
//! ([`MAX_SLOTS`] of them fit one message). With them a new hub can also take the group over
//! ([`PortGroup::from_descriptors`]).
//!
//! A slot without an owner is *closed*: a filter drops its packets. Multicast ignores slots; see
//! [`RxSocket::join_multicast`](crate::RxSocket::join_multicast).
//!
//! This module sets only the options that closed slots need too. [`RxSocket::new`](crate::RxSocket::new) sets
//! those for receiving.

mod error;
mod holder;
#[cfg(test)]
mod tests;

pub use error::BindError;
pub use holder::{Holder, other_processes_on_port, sockets_on_port};

use crate::address::{Family, RawAddress};
use crate::{bpf, multicast, sys};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use wire::ROCE_PORT;

/// The number of slots of an ordinary group.
pub const SLOTS: usize = 250;

/// The largest number of slots of a group: the kernel lets this many descriptors travel in one `SCM_RIGHTS`
/// message. It is below 256, so some destination QPNs belong to no slot.
pub const MAX_SLOTS: usize = 253;

/// The receive buffer that each socket asks for.
const RECEIVE_BUFFER_BYTES: i32 = 4 << 20;

/// The sockets on UDP port 4791, in the order of their slots.
///
/// Dropping it closes the descriptors here; copies elsewhere keep the group alive.
#[derive(Debug)]
pub struct PortGroup {
    sockets: Vec<OwnedFd>,
    family: Family,
    receive_buffer_bytes: usize,
}

impl PortGroup {
    /// Checks that no socket holds the port in this network namespace, by binding the port alone for a
    /// moment.
    ///
    /// # Errors
    /// [`BindError::Taken`] with the apparent holders; [`BindError::System`] if the system provides no
    /// sockets at all.
    pub fn probe() -> Result<(), BindError> {
        let family = usable_family();
        bind(&open(family)?, family)
    }

    /// Binds `slots` sockets, all closed, after a [`probe`](PortGroup::probe).
    ///
    /// If two processes of one user do this at the same moment, they could end up in one group. The caller
    /// must therefore hold its own lock meanwhile.
    ///
    /// # Errors
    /// As [`probe`](PortGroup::probe), and [`BindError::Slots`] if `slots` is 0 or greater
    /// than [`MAX_SLOTS`].
    pub fn bind(slots: usize) -> Result<PortGroup, BindError> {
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(BindError::Slots { slots });
        }
        PortGroup::probe()?;
        let family = usable_family();
        let sockets = (0..slots).map(|_| closed_slot(family)).collect::<Result<Vec<_>, _>>()?;
        let group = PortGroup::from_descriptors(sockets)?;
        let first = group.sockets[0].as_fd();
        bpf::steer_by_slot(first).map_err(BindError::system("steer packets by slot"))?;
        Ok(group)
    }

    /// Takes over the sockets of a group, in the order of their slots. Open slots stay open, closed ones
    /// closed.
    ///
    /// # Errors
    /// [`BindError::Slots`] for none or too many. [`BindError::Foreign`] if one of them is not a
    /// UDP socket on the port, or not of the same family as the first.
    pub fn from_descriptors(sockets: Vec<OwnedFd>) -> Result<PortGroup, BindError> {
        let slots = sockets.len();
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(BindError::Slots { slots });
        }
        let family = family_on_port(&sockets[0]).ok_or(BindError::Foreign { index: 0 })?;
        if let Some(index) = sockets.iter().position(|fd| family_on_port(fd) != Some(family)) {
            return Err(BindError::Foreign { index });
        }
        let receive_buffer_bytes = sys::get(sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF)
            .map_err(BindError::system("read the receive buffer's size"))?;
        let receive_buffer_bytes = usize::try_from(receive_buffer_bytes).unwrap_or(0);
        Ok(PortGroup { sockets, family, receive_buffer_bytes })
    }

    /// The number of slots.
    #[expect(clippy::len_without_is_empty, reason = "a group is never empty")]
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// [`Family::V6`] if the group receives IPv6 and IPv4, [`Family::V4`] if the machine has
    /// no IPv6.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The receive buffer that the kernel granted to each socket. In the kernel's accounting it is twice the
    /// size that was requested, but the overhead of packets counts too.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// The sockets in the order of their slots.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|fd| fd.as_fd())
    }

    /// The socket of one slot, if there is such a slot.
    pub fn slot(&self, slot: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(slot).map(|fd| fd.as_fd())
    }

    /// Opens a slot for a new owner. Its queue holds no packet from before this call.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such slot; otherwise as `setsockopt(2)`.
    pub fn open_slot(&self, slot: usize) -> io::Result<()> {
        self.close_slot(slot)?;
        bpf::accept_all(self.existing(slot)?)
    }

    /// Closes a slot: its packets are dropped, its queue is emptied, and it leaves all multicast groups.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such slot; otherwise as `setsockopt(2)`.
    pub fn close_slot(&self, slot: usize) -> io::Result<()> {
        let fd = self.existing(slot)?;
        bpf::drop_all(fd)?;
        multicast::leave_all(fd, self.family)?;
        // The value that `prepare` set; the slot's last owner may have switched it off.
        sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        drain(fd)
    }

    fn existing(&self, slot: usize) -> io::Result<BorrowedFd<'_>> {
        self.slot(slot).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// IPv6, whose sockets receive IPv4 packets too, if this machine has it.
///
/// If the sysctl `disable_ipv6` is set from the start, sockets can be opened but not bound.
fn usable_family() -> Family {
    let any = RawAddress::new(Family::V6.unspecified(), 0, 0);
    let bound = open(Family::V6).is_ok_and(|fd| sys::bind(fd.as_fd(), any.as_bytes()).is_ok());
    if bound { Family::V6 } else { Family::V4 }
}

/// A UDP socket; for IPv6 a dual-stack one.
fn open(family: Family) -> Result<OwnedFd, BindError> {
    let open = || {
        let socket = sys::socket(family.raw(), libc::SOCK_DGRAM, 0)?;
        if family == Family::V6 {
            sys::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
        }
        Ok(socket)
    };
    open().map_err(BindError::system("open a UDP socket"))
}

fn bind(socket: &OwnedFd, family: Family) -> Result<(), BindError> {
    let address = RawAddress::new(family.unspecified(), ROCE_PORT, 0);
    sys::bind(socket.as_fd(), address.as_bytes()).map_err(|error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => BindError::taken(),
        _ => BindError::system("bind UDP port 4791")(error),
    })
}

/// One more socket of the group. It is closed before it is bound, so it receives no packet.
fn closed_slot(family: Family) -> Result<OwnedFd, BindError> {
    let socket = open(family)?;
    prepare(&socket, family).map_err(BindError::system("prepare a socket on UDP port 4791"))?;
    bind(&socket, family)?;
    Ok(socket)
}

fn prepare(socket: &OwnedFd, family: Family) -> io::Result<()> {
    let fd = socket.as_fd();
    sys::set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    multicast::only_joined(fd, family)?;
    // The kernel coalesces before it steers, by the option of the socket that its hash finds.
    sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    bpf::drop_all(fd)?;
    enlarge_receive_buffer(fd)
}

/// Requests the big receive buffer; an unprivileged user gets at most `rmem_max`.
fn enlarge_receive_buffer(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        .or_else(|_| sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES))
}

/// The family of a UDP socket that is bound to the port on all addresses; `None` for any other socket.
fn family_on_port(socket: &OwnedFd) -> Option<Family> {
    let fd = socket.as_fd();
    let protocol = sys::get(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL).ok()?;
    let address = sys::local_address(fd).ok()??;
    let ours = protocol == libc::IPPROTO_UDP && address.port() == ROCE_PORT && address.ip().is_unspecified();
    ours.then(|| Family::of(&address.ip()))
}

/// Empties a socket's queue. The loop ends because the socket is closed to new packets.
fn drain(fd: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        match sys::recv(fd, &mut [], libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => drop(result?),
        }
    }
}
