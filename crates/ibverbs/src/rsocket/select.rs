//! The sets of `select`.

use libc::{c_int, c_short, fd_set, pollfd};

/// The events of poll(2) for select(2)'s readable, writable and exceptional.
const WANTED: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
const TOLD: [c_short; 3] =
    [libc::POLLIN | libc::POLLHUP | libc::POLLERR, libc::POLLOUT | libc::POLLERR, libc::POLLPRI | libc::POLLNVAL];

/// The three sets of a caller's.
pub(super) struct Sets {
    nfds: usize,
    sets: [*mut fd_set; 3],
}

impl Sets {
    /// # Safety
    /// Each is null or a set for at least `nfds` descriptors, as long as this lives.
    pub(super) unsafe fn new(nfds: usize, sets: [*mut fd_set; 3]) -> Sets {
        Sets { nfds, sets }
    }

    /// The entries to poll.
    pub(super) fn wanted(&self) -> Vec<pollfd> {
        let events = |fd: usize| {
            let asked = self.sets.iter().zip(WANTED).filter(|(set, _)| is_set(**set, fd));
            asked.fold(None, |events: Option<c_short>, (_, event)| Some(events.unwrap_or(0) | event))
        };
        let entry = |fd: usize| Some(pollfd { fd: fd as c_int, events: events(fd)?, revents: 0 });
        (0..self.nfds).filter_map(entry).collect()
    }

    /// Leaves the descriptors that are ready in the sets; returns how many.
    pub(super) fn tell(&self, fds: &[pollfd]) -> c_int {
        let mut count = 0;
        for (set, (wanted, told)) in self.sets.iter().zip(WANTED.into_iter().zip(TOLD)) {
            for fd in fds.iter().filter(|fd| fd.events & wanted != 0) {
                if fd.revents & told != 0 {
                    count += 1;
                } else if !set.is_null() {
                    // SAFETY: one of the caller's, within its sets.
                    unsafe { libc::FD_CLR(fd.fd, *set) };
                }
            }
        }
        count
    }
}

fn is_set(set: *mut fd_set, fd: usize) -> bool {
    // SAFETY: within the caller's set.
    !set.is_null() && unsafe { libc::FD_ISSET(fd as c_int, set) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_become_entries_and_back() {
        // SAFETY: a set is bits, for which zero is good.
        let [mut read, mut write]: [fd_set; 2] = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptors are below the size of a set.
        unsafe {
            libc::FD_SET(3, &mut read);
            libc::FD_SET(5, &mut read);
            libc::FD_SET(5, &mut write);
        }
        // SAFETY: both sets outlive `sets`.
        let sets = unsafe { Sets::new(8, [&mut read, &mut write, std::ptr::null_mut()]) };
        let mut fds = sets.wanted();
        assert_eq!(fds.iter().map(|fd| (fd.fd, fd.events)).collect::<Vec<_>>(), [(3, 1), (5, 5)]);
        fds[1].revents = libc::POLLOUT;
        assert_eq!(sets.tell(&fds), 1);
        // SAFETY: the descriptors are below the size of a set.
        unsafe {
            assert!(!libc::FD_ISSET(3, &read) && !libc::FD_ISSET(5, &read) && libc::FD_ISSET(5, &write));
        }
    }
}
