//! Waiting for many sockets and other descriptors.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::errno::{Errno, Result};
use crate::settings::polling_time;
use crate::sys;
use crate::table::{self, AnySocket};
use crate::wait::{Bell, CallPatience};

use std::os::fd::{AsFd, AsRawFd};

/// Waits as poll(2) does, for sockets of this crate and other descriptors alike; a negative timeout
/// waits forever. Returns the number of entries with events.
///
/// # Errors
/// `EINTR` after a signal.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> Result<usize> {
    let sockets: SmallVec<[Option<AnySocket>; 8]> = fds.iter().map(|fd| table::find(fd.fd).ok()).collect();
    let start = Instant::now();
    let patience = match u64::try_from(timeout_ms) {
        Ok(0) => CallPatience::NONE,
        Ok(timeout) => CallPatience::of(Duration::from_millis(timeout)),
        Err(_) => CallPatience::ENDLESS,
    };
    loop {
        let found = look(fds, &sockets)?;
        if found > 0 || patience.is_none() {
            return Ok(found);
        }
        if start.elapsed() >= polling_time() {
            break;
        }
    }
    sleep(fds, &sockets, patience)
}

/// Polls every entry once.
fn look(fds: &mut [libc::pollfd], sockets: &[Option<AnySocket>]) -> Result<usize> {
    let mut others: SmallVec<[libc::pollfd; 8]> = SmallVec::new();
    for (fd, socket) in fds.iter_mut().zip(sockets) {
        match socket {
            Some(socket) => fd.revents = socket.revents(fd.events),
            None => others.push(libc::pollfd { revents: 0, ..*fd }),
        }
    }
    if !others.is_empty() {
        sys::poll(&mut others, Some(&rustix::event::Timespec::default()))?;
        let their = fds.iter_mut().zip(sockets).filter(|(_, socket)| socket.is_none());
        their.zip(&others).for_each(|((fd, _), other)| fd.revents = other.revents);
    }
    Ok(fds.iter().filter(|fd| fd.revents != 0).count())
}

fn sleep(fds: &mut [libc::pollfd], sockets: &[Option<AnySocket>], patience: CallPatience) -> Result<usize> {
    let bell = Bell::mine()?;
    let _hung: SmallVec<[_; 8]> = sockets.iter().flatten().map(|socket| socket.bells().hang(&bell)).collect();
    let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut all: SmallVec<[libc::pollfd; 16]> = SmallVec::new();
    loop {
        let found = look(fds, sockets)?;
        if found > 0 {
            return Ok(found);
        }
        all.clear();
        all.push(wanted(bell.as_fd().as_raw_fd()));
        for (fd, socket) in fds.iter().zip(sockets) {
            match socket {
                // A socket that cannot be armed has an event at the next poll.
                Some(socket) => drop(socket.arm(|fd| all.push(wanted(fd)))),
                None => all.push(libc::pollfd { revents: 0, ..*fd }),
            }
        }
        let left = match patience.left() {
            Ok(left) => left,
            Err(Errno::AGAIN) => return Ok(0),
            Err(error) => return Err(error),
        };
        sys::poll(&mut all, left.as_ref())?;
        if all[0].revents != 0 {
            bell.hush();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn ordinary_descriptors() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut fds = [
            libc::pollfd { fd: there.as_raw_fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: -1, events: libc::POLLIN, revents: 7 },
        ];
        assert_eq!(poll(&mut fds, 0), Ok(0));
        assert_eq!(poll(&mut fds, 1), Ok(0));
        here.write_all(b"x").unwrap();
        assert_eq!(poll(&mut fds, -1), Ok(1));
        assert_eq!((fds[0].revents, fds[1].revents), (libc::POLLIN, 0));
    }
}
