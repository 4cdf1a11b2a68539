//! UDP port 4791: how this hub gets it, free or from a dead hub.
//!
//! ```text
//!   bind --free--> held
//!     |  taken by this user
//!     v                 a client sends the keeper
//!   wanted -------------------------------------------> held, some slots are orphans
//!     |    \--the port became free--> held                  | recovery_wait
//!     | recovery_wait                                       v
//!     |----another process has the keeper--> held        the orphans are closed
//!     v
//!   the hub fails
//! ```

use super::error::HubError;
use super::foreign_sockets;
use super::keeper::KeeperError;
use super::options::DaemonOptions;
use super::slot_group::SlotGroup;
use super::slot0::Slot0Receiver;
use crate::mad::AddressedMad;
use crate::status::{HubCounters, MadCounters};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use udp::BindError;

/// The time between two attempts to bind the port.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// The hub's hold on the port.
#[derive(Debug)]
pub(super) struct UdpPort {
    slots: usize,
    namespace: u64,
    recovery_wait: Duration,
    state: PortHold,
    /// Slot 0 is open, and its socket not among the epoll instance's yet.
    slot0_is_new: bool,
}

#[derive(Debug)]
enum PortHold {
    /// Another process of this user has it: maybe a client of a dead hub.
    Wanted { error: BindError, next_probe: Instant, deadline: Instant },
    /// The group is boxed as it is much larger than the rest.
    Held { group: Box<SlotGroup>, slot0: Slot0Receiver, free_orphans_at: Option<Instant> },
}

impl UdpPort {
    /// Binds the port, or begins to wait for it.
    pub(super) fn bind(options: &DaemonOptions, namespace: u64) -> Result<UdpPort, HubError> {
        let DaemonOptions { slots, recovery_wait, .. } = *options;
        let (state, slot0_is_new) = match SlotGroup::bind(slots, namespace) {
            Ok(group) => (held(group, None)?, true),
            Err(HubError::Port(error)) if may_be_ours(&error) => {
                refuse_living_hub()?;
                let now = Instant::now();
                let next_probe = now + PROBE_INTERVAL;
                (PortHold::Wanted { error, next_probe, deadline: now + recovery_wait }, false)
            }
            Err(error) => return Err(error),
        };
        Ok(UdpPort { slots, namespace, recovery_wait, state, slot0_is_new })
    }

    /// The slots, if the port is held.
    pub(super) fn group(&self) -> Option<&SlotGroup> {
        match &self.state {
            PortHold::Held { group, .. } => Some(group),
            PortHold::Wanted { .. } => None,
        }
    }

    /// The slots, if the port is held.
    pub(super) fn group_mut(&mut self) -> Option<&mut SlotGroup> {
        match &mut self.state {
            PortHold::Held { group, .. } => Some(group),
            PortHold::Wanted { .. } => None,
        }
    }

    /// Slot 0's socket, once after it was opened.
    pub(super) fn take_new_slot0(&mut self) -> Option<BorrowedFd<'_>> {
        let is_new = std::mem::take(&mut self.slot0_is_new);
        match &self.state {
            PortHold::Held { slot0, .. } if is_new => Some(slot0.as_fd()),
            _ => None,
        }
    }

    /// Takes the MADs that have arrived in slot 0, and counts the other packets.
    pub(super) fn receive(&mut self, hub: &mut HubCounters, mads: &mut MadCounters) -> Vec<AddressedMad> {
        let PortHold::Held { slot0, .. } = &mut self.state else { return Vec::new() };
        slot0.receive(hub, mads).unwrap_or_else(|error| {
            log::warn!("cannot read slot 0: {error}");
            Vec::new()
        })
    }

    /// The time of the next [`advance`](UdpPort::advance).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match &self.state {
            PortHold::Wanted { next_probe, deadline, .. } => Some(*next_probe.min(deadline)),
            PortHold::Held { free_orphans_at, .. } => *free_orphans_at,
        }
    }

    /// Tries to bind the port again, or closes the orphans, when it is time. Returns whether the port is held
    /// since this call.
    ///
    /// # Errors
    /// If the hub cannot have the port.
    pub(super) fn advance(&mut self, now: Instant) -> Result<bool, HubError> {
        match &mut self.state {
            PortHold::Held { group, free_orphans_at, .. } => {
                if free_orphans_at.is_some_and(|at| now >= at) {
                    *free_orphans_at = None;
                    group.free_orphans();
                }
                Ok(false)
            }
            PortHold::Wanted { next_probe, deadline, .. } => {
                let is_over = now >= *deadline;
                if !is_over && now < *next_probe {
                    return Ok(false);
                }
                *next_probe = now + PROBE_INTERVAL;
                self.probe(is_over)
            }
        }
    }

    fn probe(&mut self, is_over: bool) -> Result<bool, HubError> {
        match SlotGroup::bind(self.slots, self.namespace) {
            Ok(group) => self.hold(group, None),
            Err(HubError::Port(error @ BindError::Taken { .. })) if !is_over => {
                if let PortHold::Wanted { error: last, .. } = &mut self.state {
                    *last = error;
                }
                Ok(false)
            }
            Err(HubError::Port(error @ BindError::Taken { .. })) => {
                refuse_living_hub()?;
                match foreign_sockets::find_keeper(self.namespace) {
                    Some(keeper) => self.recover(keeper)?.map_err(|_| HubError::NotRecovered(error)),
                    None => Err(HubError::NotRecovered(error)),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the port over with a keeper that a client has sent, unless the port is held already. Returns
    /// whether it is held since this call.
    ///
    /// # Errors
    /// The inner one if the keeper cannot be used; the outer one if the hub cannot continue.
    pub(super) fn recover(&mut self, keeper: OwnedFd) -> Result<Result<bool, KeeperError>, HubError> {
        if self.group().is_some() {
            return Ok(Ok(false));
        }
        match SlotGroup::recover(keeper, self.namespace) {
            Ok(group) => {
                log::info!("took over the sockets of a dead hub");
                self.hold(group, Some(Instant::now() + self.recovery_wait)).map(Ok)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn hold(&mut self, group: SlotGroup, free_orphans_at: Option<Instant>) -> Result<bool, HubError> {
        assert!(self.group().is_none(), "the hub binds the port once");
        self.state = held(group, free_orphans_at)?;
        self.slot0_is_new = true;
        Ok(true)
    }
}

fn held(group: SlotGroup, free_orphans_at: Option<Instant>) -> Result<PortHold, HubError> {
    let slot0 = group.socket(0).and_then(Slot0Receiver::new);
    let slot0 = slot0.map_err(HubError::system("receive on slot 0"))?;
    Ok(PortHold::Held { group: Box::new(group), slot0, free_orphans_at })
}

/// A living hub keeps its sockets: they are not those of a dead one.
fn refuse_living_hub() -> Result<(), HubError> {
    match foreign_sockets::living_hub() {
        Some((process, directory)) => Err(HubError::OtherHub { process, directory }),
        None => Ok(()),
    }
}

/// Whether the sockets in the way could be those of a dead hub of this user.
fn may_be_ours(error: &BindError) -> bool {
    let BindError::Taken { holders, .. } = error else { return false };
    let uid = rustix::process::geteuid().as_raw();
    holders.is_empty() || holders.iter().any(|holder| holder.uid == uid && !holder.is_kernel())
}
