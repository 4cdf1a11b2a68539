//! The state of a stream socket behind its lock, and the threads that wait for it.
//!
//! The lock is never held while bytes are copied or anything is waited for. A call that needs the peer pumps: it takes
//! all completions and connection events, and then tests its condition again.

use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use ::connect::EventQueue;
use parking_lot::Mutex;

use super::core::{StreamPhase, StreamState};
use super::guard::{StreamGuard, StreamWaking};
use crate::errno::{Errno, Result};
use crate::settings::polling_time;
use crate::wait::{self, Bell, Bells, CallPatience};

/// See the module.
#[derive(Debug)]
pub(super) struct SharedStream {
    pub(super) queue: EventQueue,
    pub(super) bells: Bells,
    pub(super) waking: StreamWaking,
    pub(super) state: Mutex<StreamState>,
}

impl SharedStream {
    pub(super) fn new(queue: EventQueue, state: StreamState) -> SharedStream {
        SharedStream { queue, bells: Bells::default(), waking: StreamWaking::default(), state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> StreamGuard<'_> {
        StreamGuard::new(self, self.state.lock())
    }

    /// Pumps, and wakes the waiting threads.
    pub(super) fn pump(&self, core: &mut StreamState) {
        if core.pump() {
            self.bells.ring();
        }
    }

    /// The state, as soon as `test` holds.
    ///
    /// # Errors
    /// `EAGAIN` when patience ends, `EINTR` after a signal.
    pub(super) fn until(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut StreamState) -> bool,
    ) -> Result<StreamGuard<'_>> {
        let start = Instant::now();
        loop {
            let mut core = self.lock();
            self.pump(&mut core);
            if test(&mut core) {
                return Ok(core);
            }
            if patience.is_none() {
                return Err(Errno::AGAIN);
            }
            if start.elapsed() >= polling_time() {
                break;
            }
            drop(core);
            std::hint::spin_loop();
        }
        self.asleep_until(patience, test)
    }

    fn asleep_until(&self, patience: CallPatience, test: impl Fn(&mut StreamState) -> bool) -> Result<StreamGuard<'_>> {
        let bell = Bell::mine()?;
        let _hung = self.bells.hang(&bell);
        loop {
            let mut core = self.lock();
            self.pump(&mut core);
            if test(&mut core) {
                return Ok(core);
            }
            core.arm()?;
            let endpoint = core.endpoint.clone();
            drop(core);
            match endpoint.as_ref().and_then(|endpoint| endpoint.channel()) {
                Some(channel) => wait::sleep(&[self.queue.fd(), channel.fd()], &bell, patience)?,
                None => wait::sleep(&[self.queue.fd()], &bell, patience)?,
            }
        }
    }

    /// As [`until`](SharedStream::until), without a limit and despite signals.
    pub(super) fn surely_until(&self, test: impl Fn(&mut StreamState) -> bool) -> Result<StreamGuard<'_>> {
        loop {
            match self.until(CallPatience::ENDLESS, &test) {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// Waits until it is connected, for calls on data.
    pub(super) fn ready(&self, patience: CallPatience) -> Result<()> {
        if self.lock().is_connected() {
            return Ok(());
        }
        let mut core = self.until(patience, |core| !core.is_opening())?;
        match core.phase {
            StreamPhase::Fresh | StreamPhase::Listening => Err(Errno(libc::ENOTCONN)),
            StreamPhase::Failed => core.outcome(),
            _ => Ok(()),
        }
    }

    /// The state, as soon as the test holds. An error if nothing more can be sent.
    pub(super) fn writable(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut StreamState) -> bool,
    ) -> Result<StreamGuard<'_>> {
        let mut core = self.lock();
        if !(core.writable && test(&mut core)) {
            drop(core);
            core = self.until(patience, |core| !core.writable || test(core))?;
        }
        if core.writable { Ok(core) } else { Err(core.why_not_writable()) }
    }

    /// The events that `poll` would report.
    pub(super) fn revents(&self, events: i16) -> i16 {
        let mut core = self.lock();
        self.pump(&mut core);
        core.revents(events, self.queue.fd())
    }

    /// Makes sure that its descriptors tell of news, and gives them to `each`.
    pub(super) fn arm(&self, mut each: impl FnMut(RawFd)) -> Result<()> {
        let mut core = self.lock();
        core.arm()?;
        each(self.queue.fd().as_raw_fd());
        if let (Some(endpoint), Some(_)) = (&core.endpoint, &core.flow) {
            endpoint.channel().inspect(|channel| each(channel.fd().as_raw_fd()));
        }
        Ok(())
    }
}
