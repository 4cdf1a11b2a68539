//! The events that `poll` reports of a stream socket.

use std::os::fd::BorrowedFd;

use super::core::{StreamPhase, StreamState};

impl StreamState {
    /// The events that `poll` reports of it.
    pub(super) fn revents(&mut self, events: i16, queue: BorrowedFd<'_>) -> i16 {
        let (read, write) = (events & (libc::POLLIN | libc::POLLRDNORM), events & (libc::POLLOUT | libc::POLLWRNORM));
        match self.phase {
            StreamPhase::Fresh => 0,
            StreamPhase::Listening => {
                if has_request(queue) {
                    read
                } else {
                    0
                }
            }
            StreamPhase::Failed => read | write | libc::POLLERR,
            _ if self.is_opening() => 0,
            _ => {
                let mut found = 0;
                if self.has_data() || !self.readable {
                    found |= read | if self.readable { 0 } else { events & libc::POLLRDHUP };
                }
                if self.can_send_data() {
                    found |= write;
                }
                match self.phase {
                    // As with sockets of the system, the remaining data is read first.
                    StreamPhase::Disconnected if self.has_data() && read != 0 => found,
                    StreamPhase::Disconnected => found | libc::POLLHUP,
                    StreamPhase::Broken => found | libc::POLLERR,
                    _ => found,
                }
            }
        }
    }
}

fn has_request(queue: BorrowedFd<'_>) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(queue, rustix::event::PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())), Ok(1))
}
