//! The group of sockets that shares UDP port 4791 between processes.
//!
//! All sockets are bound to the port with `SO_REUSEPORT`, so they form one group in the
//! kernel, numbered in the order of binding. A classic BPF program reads the high byte of a
//! packet's destination QPN and the kernel gives the packet to the socket of that number,
//! its *slot*. An index past the end of the group falls back to the kernel's hash over
//! addresses and ports, so the owner of any slot may see packets that are not its own.
//!
//! The numbers hold only while **every** socket of the group stays open somewhere: when one
//! is closed for good, the last one takes its number. So whoever has one slot should hold
//! copies of all descriptors ([`MAX_SLOTS`] of them fit one message), which also lets a new
//! hub take the group over ([`PortGroup::from_descriptors`]).
//!
//! A slot that nobody uses is *closed*: a filter drops what arrives for it. Multicast does
//! not go by slots; see [`RxSocket::join_multicast`](crate::RxSocket::join_multicast).
//!
//! What this module does not do: it sets only the options that must hold for closed slots
//! too. [`RxSocket::new`](crate::RxSocket::new) sets what a receiver needs.

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

/// Slots of an ordinary group.
pub const SLOTS: usize = 250;

/// Most slots of a group: the kernel lets this many descriptors travel in one `SCM_RIGHTS`
/// message. Below 256, so that there are destination QPNs which belong to no slot.
pub const MAX_SLOTS: usize = 253;

/// Receive buffer that each socket asks for.
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
    /// Learns whether anybody holds the port in this network namespace, by binding it alone
    /// for a moment.
    ///
    /// # Errors
    /// [`BindError::Taken`] with who it seems to be; [`BindError::System`] if sockets cannot
    /// be had at all.
    pub fn probe() -> Result<(), BindError> {
        let family = usable_family();
        bind(&open(family)?, family)
    }

    /// Binds `slots` sockets, all closed, after a [`probe`](PortGroup::probe).
    ///
    /// Two processes of one user that do this at the same moment could end up in one group,
    /// so the caller holds a lock of its own meanwhile.
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

    /// Takes over the sockets of a group, in the order of their slots. Slots stay open or
    /// closed as they are.
    ///
    /// # Errors
    /// [`BindError::Slots`] for none or too many; [`BindError::Foreign`] if one of them is
    /// not a UDP socket on the port, or not of the same family as the first.
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

    /// Number of slots.
    #[expect(clippy::len_without_is_empty, reason = "a group is never empty")]
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// [`Family::V6`] if the group receives IPv6 and IPv4, [`Family::V4`] if the machine has
    /// no IPv6.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Receive buffer that the kernel granted to each socket, in its own accounting: twice
    /// what a program asks for, but the overhead of packets counts too.
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

    /// Opens a slot for a new owner: nothing older than this call is in its queue.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such slot; else as `setsockopt(2)`.
    pub fn open_slot(&self, slot: usize) -> io::Result<()> {
        self.close_slot(slot)?;
        bpf::drop_none(self.existing(slot)?)
    }

    /// Closes a slot: packets for it are dropped, its queue is emptied, and it leaves all
    /// multicast groups.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such slot; else as `setsockopt(2)`.
    pub fn close_slot(&self, slot: usize) -> io::Result<()> {
        let fd = self.existing(slot)?;
        bpf::drop_all(fd)?;
        multicast::leave_all(fd, self.family)?;
        // As `prepare` left it; its last owner may have done without.
        sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        drain(fd)
    }

    fn existing(&self, slot: usize) -> io::Result<BorrowedFd<'_>> {
        self.slot(slot).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// IPv6, whose sockets take IPv4 packets too, if this machine has it.
///
/// Where the sysctl `disable_ipv6` is set from the start, sockets can be opened, yet not
/// bound.
fn usable_family() -> Family {
    let any = RawAddress::new(Family::V6.unspecified(), 0, 0);
    let bound = open(Family::V6).is_ok_and(|fd| sys::bind(fd.as_fd(), any.as_bytes()).is_ok());
    if bound { Family::V6 } else { Family::V4 }
}

/// A UDP socket; of IPv6, one that takes both families.
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

/// One more socket of the group. It is closed before it is bound, so nothing gets in.
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
    // The kernel coalesces before it steers, by the option of whichever socket its hash finds.
    sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    bpf::drop_all(fd)?;
    enlarge_receive_buffer(fd)
}

/// Asks for the big receive buffer; a user without privileges gets what `rmem_max` allows.
fn enlarge_receive_buffer(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        .or_else(|_| sys::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES))
}

/// The family of a UDP socket that is bound to the port on all addresses.
fn family_on_port(socket: &OwnedFd) -> Option<Family> {
    let fd = socket.as_fd();
    let protocol = sys::get(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL).ok()?;
    let address = sys::local_address(fd).ok()??;
    let ours = protocol == libc::IPPROTO_UDP && address.port() == ROCE_PORT && address.ip().is_unspecified();
    ours.then(|| Family::of(&address.ip()))
}

/// Empties a socket's queue. Ends, as the socket is closed to new packets.
fn drain(fd: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        match sys::recv(fd, &mut [], libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => drop(result?),
        }
    }
}
