//! Introductions to other processes of this user, to share memory with them.
//!
//! Outside this module: it neither makes nor reads the shared memory.

use super::error::AttachError;
use super::hub_connection::HubConnection;
use crate::message::{HubRequest, IntroductionRefusal, Reply};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// This process's offer to share memory. The hub keeps it as long as the process is attached, and passes it to every
/// process that it introduces. After the hub's death the next hub gets it again.
#[derive(Clone, Debug)]
pub struct ShmOffer {
    /// The memory that this process exports to all others.
    pub export: Arc<OwnedFd>,
    /// The doorbell that wakes this process.
    pub wake: Arc<OwnedFd>,
}

/// The descriptors for one introduction, which only the asked process gets.
#[derive(Debug)]
pub struct ShmLinkOffer {
    /// Memory for the two processes.
    pub link: OwnedFd,
    /// The asked process's end of a socket pair.
    pub socket: OwnedFd,
}

/// The process that requested an introduction.
#[derive(Debug)]
pub enum RequestedBy {
    /// This process did, by [`Session::introduce`](super::Session::introduce).
    ThisProcess,
    /// The peer did, and offers this link.
    Peer(ShmLinkOffer),
}

/// The introduction of this process and another one, the peer.
#[derive(Debug)]
pub struct Introduction {
    /// The peer's slot: the one that this process asked for, or the peer's first.
    pub slot: u8,
    /// All slots that the peer had at that time.
    pub slots: Vec<u8>,
    /// The process that requested it.
    pub requested_by: RequestedBy,
    /// The memory that the peer exports.
    pub export: OwnedFd,
    /// The doorbell that wakes the peer.
    pub wake: OwnedFd,
    /// The peer's process number as the hub sees it; 0 if the hub cannot see the process.
    /// If the hub is in another process namespace, this number belongs to no process: use
    /// it only where a mistake would be noticed.
    pub pid: u32,
}

impl ShmOffer {
    /// Copies of both descriptors, to send.
    pub(super) fn copies(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([guest::copy(&*self.export)?, guest::copy(&*self.wake)?])
    }
}

/// The outcome of an introduction: the refusal names the slot that was asked for.
pub(super) type IntroductionOutcome = Result<Introduction, (u8, IntroductionRefusal)>;

/// The requests that the hub has yet to answer.
#[derive(Debug, Default)]
pub(super) struct IntroductionRequests {
    /// The slots that were asked for, oldest first.
    pending: VecDeque<u8>,
}

impl IntroductionRequests {
    /// Sends a request.
    pub(super) fn send(&mut self, hub: &HubConnection, slot: u8, offer: &ShmLinkOffer) -> Result<(), AttachError> {
        let failed = |source| AttachError::System { what: "ask the hub for an introduction", source };
        let descriptors = [offer.link.as_fd(), offer.socket.as_fd()];
        hub.send(&HubRequest::Introduce { slot }.encode(), &descriptors).map_err(failed)?;
        self.pending.push_back(slot);
        Ok(())
    }

    /// Takes in the hub's message about an introduction.
    pub(super) fn take_in(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) -> Option<IntroductionOutcome> {
        match reply {
            Reply::Introduction { slot, slots, pid } => match <[OwnedFd; 4]>::try_from(descriptors) {
                Ok([link, socket, export, wake]) => {
                    let requested_by = RequestedBy::Peer(ShmLinkOffer { link, socket });
                    Some(Ok(Introduction { slot, slots, requested_by, export, wake, pid }))
                }
                Err(_) => {
                    log::warn!("an introduction came without its descriptors: are too many open?");
                    None
                }
            },
            Reply::Introduced { slot, slots, pid } if self.is_answer(slot) => {
                Some(match <[OwnedFd; 2]>::try_from(descriptors) {
                    Ok([export, wake]) => {
                        let requested_by = RequestedBy::ThisProcess;
                        Ok(Introduction { slot, slots, requested_by, export, wake, pid })
                    }
                    Err(_) => Err((slot, IntroductionRefusal::System)),
                })
            }
            Reply::NotIntroduced { slot, refusal } if self.is_answer(slot) => Some(Err((slot, refusal))),
            other => {
                log::warn!("the hub answered a request that this process did not send: {other:?}");
                None
            }
        }
    }

    /// The hub is lost: it will answer none of the requests. Returns their slots.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = u8> + use<> {
        std::mem::take(&mut self.pending).into_iter()
    }

    /// Whether this slot's request is the next to be answered. Removes it then.
    fn is_answer(&mut self, slot: u8) -> bool {
        let is_next = self.pending.front() == Some(&slot);
        if is_next {
            self.pending.pop_front();
        }
        is_next
    }
}

/// Whether a message is about introductions.
pub(super) fn is_introduction(reply: &Reply) -> bool {
    matches!(reply, Reply::Introduction { .. } | Reply::Introduced { .. } | Reply::NotIntroduced { .. })
}
