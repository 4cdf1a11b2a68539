//! Being introduced to other processes of this user, to share memory with them.
//!
//! What this module does not do: it neither makes nor looks at what is shared.

use super::AttachError;
use super::session::{Session, SessionEvent};
use crate::message::{IntroductionRefusal, Reply, Request};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What every process that is introduced to this one gets. The hub has it as long as the
/// process is attached, and each new hub gets it again.
#[derive(Clone, Debug)]
pub struct ShmOffer {
    /// What this process shows to all others.
    pub export: Arc<OwnedFd>,
    /// What the others wake it with.
    pub wake: Arc<OwnedFd>,
}

/// What only the process gets that is asked for.
#[derive(Debug)]
pub struct ShmLinkOffer {
    /// Memory for the two of them.
    pub link: OwnedFd,
    /// Its end of a socket pair.
    pub socket: OwnedFd,
}

/// Who asked for an introduction.
#[derive(Debug)]
pub enum RequestedBy {
    /// This process did, by [`Session::introduce`].
    ThisProcess,
    /// The other process did, and offers this link.
    Peer(ShmLinkOffer),
}

/// Two processes were introduced to each other.
#[derive(Debug)]
pub struct Introduction {
    /// The other one's slot: the one that this process asked for, or the other one's first.
    pub slot: u8,
    /// All slots that the other one had at that time.
    pub slots: Vec<u8>,
    /// Who asked.
    pub requested_by: RequestedBy,
    /// What the other one shows.
    pub export: OwnedFd,
    /// What wakes the other one.
    pub wake: OwnedFd,
    /// The other one's process, by the number that it has for the hub; 0 if the hub cannot see it.
    /// For a process in another process namespace than the hub, it is no number of anything: use
    /// it only where a mistake would be noticed.
    pub pid: u32,
}

impl ShmOffer {
    /// Copies of both, to send.
    pub(super) fn copies(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([guest::copy(&*self.export)?, guest::copy(&*self.wake)?])
    }
}

impl Session {
    /// Asks the hub to introduce this process to the one that has `slot`, and to give it the
    /// link. Does not wait: the answer is an event for this slot,
    /// [`SessionEvent::Introduced`] with [`RequestedBy::ThisProcess`] or [`SessionEvent::NotIntroduced`].
    /// Every call that returned `Ok` gets one, unless the session is dropped before.
    ///
    /// Only processes of the same user are introduced that both attached with a
    /// [`ShmOffer`], and two only once as long as both stay attached to one hub. If both ask at
    /// the same time, one gets [`RequestedBy::Peer`] and after it
    /// [`IntroductionRefusal::Already`]; the other one gets [`RequestedBy::ThisProcess`]. A new hub does not
    /// know who had been introduced by the last one: then it is the asked process' to refuse
    /// the second link.
    ///
    /// # Errors
    /// [`AttachError::NotRunning`] while no hub is there, or in a forked child;
    /// [`AttachError::System`] if the hub does not read (`EAGAIN`) or as `sendmsg(2)`.
    pub fn introduce(&mut self, slot: u8, offer: ShmLinkOffer) -> Result<(), AttachError> {
        if !self.attachment.is_ours() || !self.is_attached() {
            return Err(AttachError::NotRunning);
        }
        let failed = |source| AttachError::System { what: "ask the hub for an introduction", source };
        let descriptors = [offer.link.as_fd(), offer.socket.as_fd()];
        self.attachment.send(&Request::Introduce { slot }.encode(), &descriptors).map_err(failed)?;
        self.introducing.push_back(slot);
        Ok(())
    }

    /// What the hub says about introductions.
    pub(super) fn hear_of_introduction(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) {
        match reply {
            Reply::Introduction { slot, slots, pid } => match <[OwnedFd; 4]>::try_from(descriptors) {
                Ok([link, socket, export, wake]) => {
                    let requested_by = RequestedBy::Peer(ShmLinkOffer { link, socket });
                    self.introduced(Introduction { slot, slots, requested_by, export, wake, pid });
                }
                Err(_) => log::warn!("an introduction came without its descriptors: are too many open?"),
            },
            Reply::Introduced { slot, slots, pid } if self.answered(slot) => {
                match <[OwnedFd; 2]>::try_from(descriptors) {
                    Ok([export, wake]) => {
                        self.introduced(Introduction {
                            slot,
                            slots,
                            requested_by: RequestedBy::ThisProcess,
                            export,
                            wake,
                            pid,
                        });
                    }
                    Err(_) => self.not_introduced(slot, IntroductionRefusal::System),
                }
            }
            Reply::NotIntroduced { slot, refusal } if self.answered(slot) => self.not_introduced(slot, refusal),
            other => log::warn!("the hub answered what nobody asked: {other:?}"),
        }
    }

    /// The hub is lost: it will not answer any more.
    pub(super) fn give_up_introductions(&mut self) {
        for slot in std::mem::take(&mut self.introducing) {
            self.not_introduced(slot, IntroductionRefusal::HubLost);
        }
    }

    /// Whether this was the next to be answered; from now on it is.
    fn answered(&mut self, slot: u8) -> bool {
        let is_next = self.introducing.front() == Some(&slot);
        if is_next {
            self.introducing.pop_front();
        }
        is_next
    }

    fn introduced(&mut self, introduction: Introduction) {
        self.events.push_back(SessionEvent::Introduced(introduction));
    }

    fn not_introduced(&mut self, slot: u8, reason: IntroductionRefusal) {
        self.events.push_back(SessionEvent::NotIntroduced { slot, reason });
    }
}
