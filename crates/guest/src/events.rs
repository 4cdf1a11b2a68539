//! Waits for descriptors without complaints of memory checkers.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::event::epoll::Event;
use rustix::io::{Errno, Result};

/// Waits until `epoll` has events, but no longer than `longest`, rounded up to milliseconds; `None` means for
/// ever.
///
/// `rustix::event::epoll::wait` passes five of the system call's six arguments. Without a signal mask the
/// kernel does not read the sixth, but valgrind reports the uninitialised register.
///
/// # Errors
/// As `epoll_pwait(2)`.
pub fn epoll_wait(
    epoll: impl AsFd,
    space: &mut [MaybeUninit<Event>],
    longest: Option<Duration>,
) -> Result<&mut [Event]> {
    const { assert!(size_of::<Event>() == size_of::<libc::epoll_event>()) };
    let epoll = epoll.as_fd().as_raw_fd();
    let room = i32::try_from(space.len()).unwrap_or(i32::MAX);
    let longest = longest.map_or(-1, milliseconds);
    let same_signals = std::ptr::null::<libc::sigset_t>();
    // SAFETY: the kernel writes at most `room` events of this size to `space`, and reads no signal mask.
    let count = unsafe {
        libc::syscall(libc::SYS_epoll_pwait, epoll, space.as_mut_ptr(), room, longest, same_signals, 0_usize)
    };
    match usize::try_from(count) {
        // SAFETY: the kernel wrote the first `count` events, and `count` is at most `room`.
        Ok(count) => Ok(unsafe { space[..count].assume_init_mut() }),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// The duration in milliseconds, rounded up.
fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll;

    #[test]
    fn events_come_with_their_data() {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut space = [const { MaybeUninit::uninit() }; 2];
        assert!(epoll_wait(&all, &mut space, Some(Duration::ZERO)).unwrap().is_empty());
        let pipes: Vec<_> = (0..3).map(|_| std::io::pipe().unwrap()).collect();
        for (number, (reader, writer)) in pipes.iter().enumerate() {
            epoll::add(&all, reader, epoll::EventData::new_u64(number as u64 + 7), epoll::EventFlags::IN).unwrap();
            rustix::io::write(writer, b"x").unwrap();
        }
        let came: Vec<_> =
            epoll_wait(&all, &mut space, None).unwrap().iter().map(|event| (event.data.u64(), event.flags)).collect();
        assert_eq!(came, [(7, epoll::EventFlags::IN), (8, epoll::EventFlags::IN)]);
    }

    #[test]
    fn errors_are_the_kernels() {
        let (no_epoll, _writer) = std::io::pipe().unwrap();
        assert_eq!(epoll_wait(&no_epoll, &mut [MaybeUninit::uninit()], None).err(), Some(Errno::INVAL));
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        for (micros, whole) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(milliseconds(Duration::from_micros(micros)), whole);
        }
        assert_eq!(milliseconds(Duration::MAX), i32::MAX);
    }
}
