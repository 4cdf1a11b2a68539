//! When packets of one send shall arrive as one datagram.
//!
//! Streams arrive several times faster so, but for a packet that comes alone the option costs a tenth of its whole
//! way: presumably the kernel then looks at a cache line that the sender's processor has just written. So a socket that
//! gets lone packets for the most part does without, and takes the option back when more come together.

use super::batch::RxBatch;
use crate::sys;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// So many lone packets, and no others, are taken for a conversation, and half of it still is one.
const CONVERSATION: u32 = 256;
/// What a datagram that comes with others, or with several packets, takes off.
const COMPANY: u32 = 8;

/// The state of one socket's option, as its one receiver at a time sees it.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// Lone packets of late, up to [`CONVERSATION`].
    lone: AtomicU32,
    /// The call before brought something, too.
    follows: AtomicBool,
    /// The option is off.
    rests: AtomicBool,
}

impl Coalescing {
    /// Sets the option by what a receive call has brought.
    #[inline]
    pub(super) fn note(&self, batch: &RxBatch, fd: BorrowedFd<'_>) {
        let (found, follows) = (!batch.is_empty(), self.follows.load(Relaxed));
        if found != follows {
            self.follows.store(found, Relaxed);
        }
        if found {
            self.count(!follows && batch.is_lone_packet(), batch.len() as u32, fd);
        }
    }

    fn count(&self, is_lone: bool, datagrams: u32, fd: BorrowedFd<'_>) {
        let lone = match self.lone.load(Relaxed) {
            lone if is_lone => (lone + 1).min(CONVERSATION),
            lone => lone.saturating_sub(datagrams * COMPANY),
        };
        self.lone.store(lone, Relaxed);
        let rests = self.rests.load(Relaxed);
        let shall_rest = if rests { lone >= CONVERSATION / 2 } else { lone == CONVERSATION };
        if rests != shall_rest {
            self.rests.store(shall_rest, Relaxed);
            set(fd, !shall_rest);
        }
    }
}

/// If it cannot be done, packets only arrive more slowly.
#[cold]
fn set(fd: BorrowedFd<'_>, coalesce: bool) {
    let _ = sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, coalesce.into());
}
