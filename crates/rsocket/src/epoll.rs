//! Sets of descriptors to wait for, as epoll(7) has them, for sockets of this crate and other descriptors alike.
//!
//! A set remembers the events that are wanted of each descriptor, and waits by [`poll`](crate::poll). Its name is
//! the number of an epoll descriptor that it holds and does not use. Everything is level-triggered: with `EPOLLET` a
//! program gets an event more often than necessary, never less often.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::errno::{Errno, Result};
use crate::table;

static SETS: RwLock<Option<HashMap<RawFd, Arc<Set>>>> = RwLock::new(None);

/// Events that are wanted of a descriptor, or have happened: bits of epoll(7), and the caller's own word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interest {
    /// `EPOLLIN` and so on.
    pub events: u32,
    /// Given back with each event.
    pub data: u64,
}

/// A change of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterestChange {
    /// `EPOLL_CTL_ADD`.
    Add(Interest),
    /// `EPOLL_CTL_MOD`.
    Modify(Interest),
    /// `EPOLL_CTL_DEL`.
    Delete,
}

/// A set.
struct Set {
    _name: OwnedFd,
    members: Mutex<SetMembers>,
    /// Wake the waiting threads when the set changes.
    waiting: Mutex<Vec<Arc<OwnedFd>>>,
}

#[derive(Default)]
struct SetMembers {
    wanted: BTreeMap<RawFd, Interest>,
    /// The first descriptor of the next report, so that all of them get their turn.
    first: RawFd,
}

/// The bits of epoll that are the same in poll(2), and may be reported.
const TOLD: u32 = 0x27ff;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// A new set; close it with [`close`](crate::close).
///
/// # Errors
/// As epoll_create1(2).
pub fn epoll_create(close_on_exec: bool) -> Result<RawFd> {
    let name = epoll::create(if close_on_exec { epoll::CreateFlags::CLOEXEC } else { epoll::CreateFlags::empty() })?;
    let number = name.as_raw_fd();
    let set = Set { _name: name, members: Mutex::default(), waiting: Mutex::default() };
    SETS.write().get_or_insert_default().insert(number, Arc::new(set));
    Ok(number)
}

/// Changes a set: `epoll_ctl(2)`.
///
/// # Errors
/// `EBADF`, `EEXIST`, `ENOENT`; `EINVAL` for a set in itself.
pub fn epoll_control(set: RawFd, fd: RawFd, change: InterestChange) -> Result<()> {
    let found = find(set)?;
    if fd == set {
        return Err(Errno::INVAL);
    }
    if table::find(fd).is_err() && !crate::sys::is_open(fd) {
        return Err(Errno::BADF);
    }
    found.members.lock().change(fd, change)?;
    found.wake();
    Ok(())
}

/// Waits until something happens to a member: `epoll_wait(2)`. Returns `max` at most. A negative timeout is
/// forever.
///
/// # Errors
/// `EBADF`; `EINVAL` if `max` is zero; `EINTR` after a signal.
pub fn epoll_wait(set: RawFd, max: usize, timeout_ms: i32) -> Result<Vec<Interest>> {
    let set = find(set)?;
    if max == 0 {
        return Err(Errno::INVAL);
    }
    let end = u64::try_from(timeout_ms).ok().map(|timeout| Instant::now() + Duration::from_millis(timeout));
    let found = set.look(max, None, 0)?;
    if !found.is_empty() || timeout_ms == 0 {
        return Ok(found);
    }
    let bell = Arc::new(guest::high(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?));
    let _hung = SetBellGuard::new(&set, &bell);
    loop {
        let left = end.map_or(-1, |end| milliseconds(end.saturating_duration_since(Instant::now())));
        let found = set.look(max, Some(&bell), left)?;
        if !found.is_empty() || left == 0 {
            return Ok(found);
        }
    }
}

/// Rounded up, so that nobody wakes too early.
fn milliseconds(left: Duration) -> i32 {
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// Ends a set.
pub(crate) fn close(set: RawFd) -> Result<()> {
    let gone = SETS.write().as_mut().and_then(|sets| sets.remove(&set));
    gone.map(|set| set.wake()).ok_or(Errno::BADF)
}

/// Removes a closed descriptor from all sets.
pub(crate) fn forget(fd: RawFd) {
    for set in SETS.read().iter().flat_map(HashMap::values) {
        set.members.lock().wanted.remove(&fd);
    }
}

fn find(set: RawFd) -> Result<Arc<Set>> {
    SETS.read().as_ref().and_then(|sets| sets.get(&set).cloned()).ok_or(Errno::BADF)
}

impl SetMembers {
    fn change(&mut self, fd: RawFd, change: InterestChange) -> Result<()> {
        match (change, self.wanted.contains_key(&fd)) {
            (InterestChange::Add(_), true) => return Err(Errno(libc::EEXIST)),
            (InterestChange::Modify(_) | InterestChange::Delete, false) => return Err(Errno(libc::ENOENT)),
            (InterestChange::Add(wanted) | InterestChange::Modify(wanted), _) => drop(self.wanted.insert(fd, wanted)),
            (InterestChange::Delete, true) => drop(self.wanted.remove(&fd)),
        }
        Ok(())
    }

    /// The entries to poll, in the order of the next report.
    fn polled(&self) -> Vec<libc::pollfd> {
        let order = self.wanted.range(self.first..).chain(self.wanted.range(..self.first));
        // A one-shot descriptor that was reported is not polled again.
        let asked = order.filter(|(_, wanted)| wanted.events & !ONESHOT != 0);
        asked.map(|(&fd, wanted)| entry(fd, (wanted.events & TOLD) as i16)).collect()
    }

    /// The report of a descriptor with events.
    fn tell(&mut self, fd: RawFd, revents: i16) -> Option<Interest> {
        if revents & libc::POLLNVAL != 0 {
            // Closed: it leaves the set by itself.
            self.wanted.remove(&fd);
            return None;
        }
        let wanted = self.wanted.get_mut(&fd)?;
        let told = Interest { events: u32::from(revents as u16) & TOLD, data: wanted.data };
        if wanted.events & ONESHOT != 0 {
            wanted.events = ONESHOT;
        }
        self.first = fd.saturating_add(1);
        Some(told)
    }
}

impl Set {
    fn wake(&self) {
        for bell in &*self.waiting.lock() {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Polls all members once, and a bell that ends the wait.
    fn look(&self, max: usize, bell: Option<&OwnedFd>, timeout_ms: i32) -> Result<Vec<Interest>> {
        let mut fds = self.members.lock().polled();
        let count = fds.len();
        fds.extend(bell.map(|bell| entry(bell.as_fd().as_raw_fd(), libc::POLLIN)));
        crate::poll(&mut fds, timeout_ms)?;
        if let Some(bell) = bell.filter(|_| fds[count].revents != 0) {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        let mut members = self.members.lock();
        let happened = fds[..count].iter().filter(|fd| fd.revents != 0);
        Ok(happened.filter_map(|fd| members.tell(fd.fd, fd.revents)).take(max).collect())
    }
}

fn entry(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// The bell of a waiting thread, on the list of a set.
struct SetBellGuard<'a>(&'a Set, &'a Arc<OwnedFd>);

impl<'a> SetBellGuard<'a> {
    fn new(set: &'a Set, bell: &'a Arc<OwnedFd>) -> SetBellGuard<'a> {
        set.waiting.lock().push(Arc::clone(bell));
        SetBellGuard(set, bell)
    }
}

impl Drop for SetBellGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().retain(|bell| !Arc::ptr_eq(bell, self.1));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;

    fn wanted(events: u32, data: u64) -> Interest {
        Interest { events, data }
    }

    #[test]
    fn members_come_and_go() {
        let set = epoll_create(true).unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        let fd = there.as_raw_fd();
        let control = |change| epoll_control(set, fd, change);
        assert_eq!(control(InterestChange::Delete), Err(Errno(libc::ENOENT)));
        control(InterestChange::Add(wanted(IN, 7))).unwrap();
        assert_eq!(control(InterestChange::Add(wanted(IN, 7))), Err(Errno(libc::EEXIST)));
        assert_eq!(epoll_control(set, set, InterestChange::Delete), Err(Errno::INVAL));
        assert_eq!(epoll_control(-1, fd, InterestChange::Delete), Err(Errno::BADF));
        assert_eq!(epoll_control(set, -1, InterestChange::Delete), Err(Errno::BADF));
        assert_eq!(epoll_wait(set, 0, 0), Err(Errno::INVAL));
        assert_eq!(epoll_wait(set, 4, 1), Ok(vec![]));
        here.write_all(b"x").unwrap();
        assert_eq!(epoll_wait(set, 4, -1), Ok(vec![wanted(IN, 7)]));
        control(InterestChange::Modify(wanted(IN | ONESHOT, 8))).unwrap();
        assert_eq!(epoll_wait(set, 4, -1), Ok(vec![wanted(IN, 8)]));
        assert_eq!(epoll_wait(set, 4, 1), Ok(vec![]), "once");
        control(InterestChange::Modify(wanted(IN, 9))).unwrap();
        assert_eq!(epoll_wait(set, 4, -1), Ok(vec![wanted(IN, 9)]));
        drop(there);
        assert_eq!(epoll_wait(set, 4, 1), Ok(vec![]), "a closed descriptor is removed");
        crate::close(set).unwrap();
        assert_eq!(epoll_wait(set, 4, 0), Err(Errno::BADF));
    }

    #[test]
    fn everybody_has_a_turn() {
        let set = epoll_create(false).unwrap();
        let mut pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (data, (here, there)) in (0..).zip(&mut pairs) {
            epoll_control(set, there.as_raw_fd(), InterestChange::Add(wanted(IN, data))).unwrap();
            here.write_all(b"x").unwrap();
        }
        let mut told: Vec<u64> = (0..3).map(|_| epoll_wait(set, 1, -1).unwrap()[0].data).collect();
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2]);
        pairs[0].1.read_exact(&mut [0]).unwrap();
        assert_eq!(epoll_wait(set, 4, -1).unwrap().len(), 2);
        crate::close(set).unwrap();
    }

    #[test]
    fn a_waiting_thread_sees_new_members() {
        let set = epoll_create(true).unwrap();
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"x").unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| epoll_wait(set, 1, -1));
            std::thread::sleep(Duration::from_millis(20));
            epoll_control(set, there.as_raw_fd(), InterestChange::Add(wanted(IN, 1))).unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(vec![wanted(IN, 1)]));
        });
        crate::close(set).unwrap();
    }
}
