//! A watch over the memory of this process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use crate::engine::EngineRef;
use crate::engine::memory_watchers::ChangeBell;
use crate::error::Error;

/// Wakes a thread that sleeps on descriptors until a peer changes this process's memory.
///
/// It is for programs that poll memory which their peers WRITE: no completion tells of such a change, and a thread that
/// polls needs a processor of its own. [Arm](MemoryWatch::arm) the watch, look at the memory once more, and wait for its
/// descriptor to be readable. Any change to any memory of the process makes it so, within microseconds.
#[derive(Debug)]
pub struct MemoryWatch {
    engine: EngineRef,
    bell: Arc<ChangeBell>,
    /// An epoll instance with our bell, and with the one that peers ring.
    both: OwnedFd,
    armed: bool,
}

impl MemoryWatch {
    pub(crate) fn new(engine: &EngineRef) -> Result<MemoryWatch, Error> {
        engine.check()?;
        let bell = ChangeBell::new()?;
        let both = wait_for_both(&bell.descriptor, &engine.watch.bell).map_err(io::Error::from)?;
        Ok(MemoryWatch { engine: engine.clone(), bell, both, armed: false })
    }

    /// Arms the watch. If this returns true, look at the memory once more before you sleep: a change that you do not see
    /// there makes the descriptor readable. If it returns false, changes may go unheard: do not sleep for longer than you
    /// may overlook one. The first call of a process does so.
    pub fn arm(&mut self) -> bool {
        if self.engine.check().is_err() {
            return false;
        }
        self.disarm();
        self.forget_earlier();
        if !self.engine.memory_watchers.announce() {
            return false;
        }
        self.engine.memory_watchers.enter(&self.bell);
        self.armed = true;
        let is_heard = self.engine.shm.as_ref().is_none_or(|shm| shm.export.export().watch_memory());
        if !is_heard {
            self.disarm();
            return false;
        }
        self.engine.application_may_block();
        true
    }

    /// Waits for a change at most `timeout`. False if none has come, or a signal has.
    ///
    /// # Errors
    /// If the system cannot wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut [PollFd::new(&self.both, PollFlags::IN)], timeout.as_ref()) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Disarms it. WRITEs of peers cost them a little less then.
    pub fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.engine.memory_watchers.leave(&self.bell);
            self.bell.silence();
            self.engine.unwatch_memory();
        }
    }

    /// Takes the events of rings before now.
    fn forget_earlier(&self) {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 2];
        let _ = guest::epoll_wait(&self.both, &mut events, Some(Duration::ZERO));
    }
}

fn wait_for_both(ours: &OwnedFd, of_peers: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let both = guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let data = epoll::EventData::new_u64(0);
    epoll::add(&both, ours, data, epoll::EventFlags::IN)?;
    // Each ring is an event of its own: other threads read this bell when they like.
    epoll::add(&both, of_peers, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
    Ok(both)
}

impl AsFd for MemoryWatch {
    /// Readable after a change. Do not read from it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            self.disarm();
        }
    }
}
