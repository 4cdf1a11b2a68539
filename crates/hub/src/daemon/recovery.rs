//! Getting the port: free, or from a hub that died.
//!
//! ```text
//!   bind --free--> held
//!     |  taken by this user
//!     v                 a client brings the keeper
//!   wanted -------------------------------------------> held, some slots are orphans
//!     |    \--the port became free--> held                  | recovery_wait
//!     | recovery_wait                                       v
//!     |----another process has the keeper--> held        orphans are closed
//!     v
//!   the hub fails
//! ```

use super::DaemonOptions;
use super::connection::{Connection, Stage, Wish};
use super::error::HubError;
use super::group::Group;
use super::inherited;
use super::server::{Answer, Server};
use super::stray::StrayPackets;
use crate::keeper::KeeperError;
use crate::mad::MadPacket;
use crate::message::{ErrorCode, Reply};
use crate::slots::Owner;
use crate::status::{HubCounters, MadCounters};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use udp::BindError;

/// How often the hub tries whether the port has become free.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// The hub's hold on UDP port 4791.
#[derive(Debug)]
pub(super) enum Port {
    /// Another process of this user has it: maybe a client of a hub that died.
    Wanted {
        /// Why it could not be had.
        error: BindError,
        /// When to try again.
        next_probe: Instant,
        /// When to give up.
        deadline: Instant,
    },
    /// It is ours.
    Held {
        /// Boxed, as it is much larger than the rest.
        group: Box<Group>,
        /// Slot 0.
        stray: StrayPackets,
        /// When to close the slots that nobody came back for.
        settle_at: Option<Instant>,
    },
}

impl Port {
    /// Binds the port, or begins to wait for it.
    pub(super) fn bind(options: &DaemonOptions, namespace: u64) -> Result<Port, HubError> {
        match Group::bind(options.slots, namespace) {
            Ok(group) => Port::held(group, None),
            Err(HubError::Port(error)) if may_be_ours(&error) => {
                let now = Instant::now();
                let next_probe = now + PROBE_INTERVAL;
                Ok(Port::Wanted { error, next_probe, deadline: now + options.recovery_wait })
            }
            Err(error) => Err(error),
        }
    }

    fn held(group: Group, settle_at: Option<Instant>) -> Result<Port, HubError> {
        let stray = group.socket(0).and_then(StrayPackets::new);
        let stray = stray.map_err(HubError::system("receive on slot 0"))?;
        Ok(Port::Held { group: Box::new(group), stray, settle_at })
    }

    /// The group, if the port is held.
    pub(super) fn group(&self) -> Option<&Group> {
        match self {
            Port::Held { group, .. } => Some(group),
            Port::Wanted { .. } => None,
        }
    }

    /// The group, if the port is held.
    pub(super) fn group_mut(&mut self) -> Option<&mut Group> {
        match self {
            Port::Held { group, .. } => Some(group),
            Port::Wanted { .. } => None,
        }
    }

    /// Slot 0's descriptor, if the port is held.
    pub(super) fn stray_packets(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Port::Held { stray, .. } => Some(stray.as_fd()),
            Port::Wanted { .. } => None,
        }
    }

    /// Takes the MADs that have arrived, and counts the rest.
    pub(super) fn take_stray_packets(&mut self, hub: &mut HubCounters, mads: &mut MadCounters) -> Vec<MadPacket> {
        let Port::Held { stray, .. } = self else { return Vec::new() };
        stray.take(hub, mads).unwrap_or_else(|error| {
            log::warn!("cannot read slot 0: {error}");
            Vec::new()
        })
    }

    /// Takes a client's slots back.
    pub(super) fn take_back(&mut self, slots: &[u8], owner: Owner) {
        let Some(group) = self.group_mut() else { return };
        for slot in slots {
            group.take_back(*slot, owner);
        }
    }

    /// When [`Server::advance_port`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Port::Wanted { next_probe, deadline, .. } => Some(*next_probe.min(deadline)),
            Port::Held { settle_at, .. } => *settle_at,
        }
    }
}

/// Whether the sockets in the way could be those of a hub of this user that died.
fn may_be_ours(error: &BindError) -> bool {
    let BindError::Taken { holders, .. } = error else { return false };
    let uid = rustix::process::geteuid().as_raw();
    holders.is_empty() || holders.iter().any(|holder| holder.uid == uid && !holder.is_kernel())
}

impl Server {
    /// Does what is due about the port.
    pub(super) fn advance_port(&mut self, now: Instant) -> Result<(), HubError> {
        match &mut self.port {
            Port::Held { group, settle_at, .. } => {
                if settle_at.is_some_and(|at| now >= at) {
                    *settle_at = None;
                    group.settle();
                }
                Ok(())
            }
            Port::Wanted { next_probe, deadline, .. } => {
                let over = now >= *deadline;
                if !over && now < *next_probe {
                    return Ok(());
                }
                *next_probe = now + PROBE_INTERVAL;
                self.probe(over)
            }
        }
    }

    /// Tries whether the port has become free; gives up if the time is `over`.
    fn probe(&mut self, over: bool) -> Result<(), HubError> {
        match Group::bind(self.options.slots, self.rendezvous.namespace()) {
            Ok(group) => self.hold(group, None),
            Err(HubError::Port(error @ BindError::Taken { .. })) if !over => {
                if let Port::Wanted { error: last, .. } = &mut self.port {
                    *last = error;
                }
                Ok(())
            }
            Err(HubError::Port(error @ BindError::Taken { .. })) => {
                match inherited::find(self.rendezvous.namespace()) {
                    Some(keeper) => self.recover(keeper)?.or_else(|_| self.give_up(HubError::NotRecovered(error))),
                    None => self.give_up(HubError::NotRecovered(error)),
                }
            }
            Err(error) => self.give_up(error),
        }
    }

    /// Takes the port over with the keeper that a client brought. Does nothing if the port is
    /// held already.
    pub(super) fn recover(&mut self, keeper: OwnedFd) -> Result<Result<(), KeeperError>, HubError> {
        if self.port.group().is_some() {
            return Ok(Ok(()));
        }
        match Group::recover(keeper, self.rendezvous.namespace()) {
            Ok(group) => {
                log::info!("took over the sockets of a hub that died");
                self.hold(group, Some(Instant::now() + self.options.recovery_wait))?;
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn hold(&mut self, group: Group, settle_at: Option<Instant>) -> Result<(), HubError> {
        self.port = Port::held(group, settle_at)?;
        self.watch_port()?;
        for (id, wish) in self.take_wishes() {
            let answer = self.grant(id, wish);
            self.give(id, answer);
        }
        Ok(())
    }

    /// The wishes of those who wait for a slot.
    fn take_wishes(&mut self) -> Vec<(Owner, Wish)> {
        let waiting = |(id, connection): (&u64, &mut Connection)| {
            if !matches!(connection.stage, Stage::Waiting(_)) {
                return None;
            }
            match mem::replace(&mut connection.stage, Stage::Greeted) {
                Stage::Waiting(wish) => Some((*id, wish)),
                _ => None,
            }
        };
        self.connections.iter_mut().filter_map(waiting).collect()
    }

    /// Tells those who wait for a slot that there will be none.
    fn give_up(&mut self, error: HubError) -> Result<(), HubError> {
        for (id, _) in self.take_wishes() {
            self.give(id, Answer::Last(Reply::error(ErrorCode::NoPort, &error)));
        }
        Err(error)
    }
}
