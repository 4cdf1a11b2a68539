//! The lock of a stream's state, and how the device wakes the tasks that wait for it.
//!
//! Every change of the state ends with a look at the waiting tasks: whoever unlocks the state wakes those whose news
//! has come. The device's own thread does so too: it takes the completions in, which for most of them is all.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;

use parking_lot::MutexGuard;

use super::core::StreamState;
use super::shared::SharedStream;
use crate::errno::Result;

/// The locked state. Unlocking wakes the tasks whose news has come.
pub(super) struct StreamGuard<'a> {
    stream: &'a SharedStream,
    state: Option<MutexGuard<'a, StreamState>>,
}

/// The state of waking the tasks of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamWaking {
    /// The device calls the waker at the next completion.
    armed: AtomicBool,
    /// There may be completions that nobody has taken in: whoever unlocks the state does.
    again: AtomicBool,
    waker: OnceLock<Waker>,
}

impl<'a> StreamGuard<'a> {
    pub(super) fn new(stream: &'a SharedStream, state: MutexGuard<'a, StreamState>) -> StreamGuard<'a> {
        StreamGuard { stream, state: Some(state) }
    }
}

impl Deref for StreamGuard<'_> {
    type Target = StreamState;

    fn deref(&self) -> &StreamState {
        self.state.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for StreamGuard<'_> {
    fn deref_mut(&mut self) -> &mut StreamState {
        self.state.as_mut().expect("it is there until the drop")
    }
}

impl Drop for StreamGuard<'_> {
    fn drop(&mut self) {
        let due = self.state.take().map(|mut state| state.take_due());
        due.into_iter().flatten().for_each(Waker::wake);
        self.stream.take_in();
    }
}

impl SharedStream {
    /// Lets the device wake the tasks of this socket: the waker calls [`woken`](SharedStream::woken).
    pub(super) fn set_task_waker(&self, waker: Waker) {
        let _ = self.waking.waker.set(waker);
    }

    /// Makes sure that completions from now on are taken in. The caller holds no lock.
    pub(super) fn arm_for_tasks(&self) -> Result<()> {
        let endpoint = self.lock().live_endpoint();
        if let (Some(endpoint), Some(waker)) = (endpoint, self.waking.waker.get())
            && !self.waking.armed.swap(true, SeqCst)
        {
            endpoint.set_waker(waker.clone());
            endpoint.arm()?;
        }
        Ok(())
    }

    /// The device has completions.
    pub(super) fn woken(&self) {
        self.waking.armed.store(false, SeqCst);
        self.waking.again.store(true, SeqCst);
        self.take_in();
    }

    /// Takes completions in that the device has told of. If another thread has the state, or this one further up
    /// its stack, then that one does so when it unlocks it.
    fn take_in(&self) {
        while self.waking.again.swap(false, SeqCst) {
            let Some(mut state) = self.state.try_lock() else {
                self.waking.again.store(true, SeqCst);
                break;
            };
            state.collect();
            let due = state.take_due();
            let waiting = !state.tasks.is_empty();
            drop(state);
            due.into_iter().for_each(Waker::wake);
            if waiting && let Err(error) = self.arm_for_tasks() {
                log::debug!("{error}");
            }
        }
    }
}
