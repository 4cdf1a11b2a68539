//! The choice whether packets of one send arrive as one datagram (UDP_GRO).
//!
//! Coalescing makes streams arrive several times faster. But it slows a lone packet: presumably the kernel
//! then reads a cache line that the sender's processor has just written. So a socket that gets mostly lone
//! packets switches the option off, and switches it on again when several packets arrive together.

use super::batch::RxBatch;
use crate::sys;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// This many lone packets count as a conversation; half of them are enough to remain one.
const CONVERSATION: u32 = 256;
/// The number that a datagram with company (other datagrams, or several packets) subtracts.
const COMPANY: u32 = 8;

/// The state of one socket's option, as seen by its only receiver.
#[derive(Debug, Default)]
pub(super) struct Coalescing {
    /// The number of recent lone packets, up to [`CONVERSATION`].
    lone: AtomicU32,
    /// True if the previous call returned datagrams too.
    follows: AtomicBool,
    /// True if the option is off.
    rests: AtomicBool,
}

impl Coalescing {
    /// Sets the option by the result of a receive call.
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

/// Sets the option. If that fails, packets only arrive more slowly.
#[cold]
fn set(fd: BorrowedFd<'_>, coalesce: bool) {
    let _ = sys::set(fd, libc::SOL_UDP, libc::UDP_GRO, coalesce.into());
}
