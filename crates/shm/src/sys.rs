//! System calls: memfds and their seals, barriers in other processes, memory of other processes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use memory::Span;

const MEMBARRIER_GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// A new memfd of that size, not yet sealed.
pub(crate) fn memfd(name: &core::ffi::CStr, bytes: usize) -> io::Result<OwnedFd> {
    // Beyond the limit the kernel would not only refuse but also send SIGXFSZ.
    if memory::file_limit_bytes() < bytes as u64 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let size = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: plain system calls on a new descriptor that nothing else owns.
    unsafe {
        let fd = guest::high(OwnedFd::from_raw_fd(checked(libc::memfd_create(name.as_ptr(), flags))?));
        checked(libc::ftruncate(fd.as_raw_fd(), size))?;
        Ok(fd)
    }
}

/// Seals a memfd (fcntl(2), `F_ADD_SEALS`).
pub(crate) fn seal(fd: BorrowedFd<'_>, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: sets seals of a file; reads and writes no memory.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}

/// The seals of a memfd; an error for anything else.
pub(crate) fn seals(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    // SAFETY: reads seals of a file; reads and writes no memory.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })
}

/// The size of a descriptor's file in bytes.
pub(crate) fn file_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let stat = rustix::fs::fstat(fd)?;
    u64::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Registers this process, so that other processes' barriers reach it too. True if the kernel agreed.
pub(crate) fn register_for_barriers() -> bool {
    static AGREED: OnceLock<bool> = OnceLock::new();
    *AGREED.get_or_init(|| membarrier(MEMBARRIER_REGISTER_GLOBAL_EXPEDITED))
}

/// Makes every processor that runs a registered process execute a full barrier before it returns. True if the
/// kernel did it.
pub(crate) fn barrier_everywhere() -> bool {
    membarrier(MEMBARRIER_GLOBAL_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier(2) accesses no memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Random bits.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the kernel fills at most as many bytes as the array has.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if filled == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}

/// True if Yama lets a process reach only the memory of its descendants and of processes that name it.
pub(crate) fn is_ptrace_restricted() -> bool {
    std::fs::read("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.starts_with(b"1"))
}

/// Names the process that may reach this process' memory (prctl(2), `PR_SET_PTRACER`); `None` permits every
/// process of this user.
pub(crate) fn name_ptracer(pid: Option<i32>) {
    let tracer = pid.map_or(libc::PR_SET_PTRACER_ANY, |pid| pid as libc::c_ulong);
    // SAFETY: sets a property of this process. If it is refused, peers find out when they try.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer, 0, 0, 0) };
}

/// Copies from another process' memory (process_vm_readv(2)): all of `to`, or an error.
pub(crate) fn read_process(pid: i32, address: u64, to: Span<'_>) -> io::Result<()> {
    let (local, remote) = (part(to.as_ptr(), to.len_bytes()), part(address as *mut u8, to.len_bytes()));
    // SAFETY: the kernel writes only within the span, which its maker has opened to writes.
    transferred(unsafe { memory::process_vm_readv(pid, &local, &remote) }, to.len_bytes())
}

/// Copies to another process' memory (process_vm_writev(2)): all of `from`. After an error a part may have
/// been written.
pub(crate) fn write_process(pid: i32, address: u64, from: Span<'_>) -> io::Result<()> {
    let (local, remote) = (part(from.as_ptr(), from.len_bytes()), part(address as *mut u8, from.len_bytes()));
    // SAFETY: the kernel reads only within the span, and writes only to the other process' memory.
    transferred(unsafe { memory::process_vm_writev(pid, &local, &remote) }, from.len_bytes())
}

/// A descriptor of a process, readable when it has ended (pidfd_open(2)).
pub(crate) fn pidfd(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok().map(guest::high)
}

/// The events of a descriptor at this moment.
pub(crate) fn ready_now(fd: BorrowedFd<'_>, events: rustix::event::PollFlags) -> rustix::event::PollFlags {
    let mut one = [rustix::event::PollFd::from_borrowed_fd(fd, events)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut one, Some(&now)) {
        Ok(1) => one[0].revents(),
        _ => rustix::event::PollFlags::empty(),
    }
}

/// Adds one to an eventfd, unless it is full.
pub(crate) fn ring_bell(bell: &OwnedFd) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    // The peer shares the counter and the file's flags. With a full counter and without O_NONBLOCK this write
    // would block.
    let ready = fcntl_getfl(bell).and_then(|flags| match flags.contains(OFlags::NONBLOCK) {
        true => Ok(()),
        false => fcntl_setfl(bell, flags | OFlags::NONBLOCK),
    });
    if ready.is_ok() {
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

fn part(start: *mut u8, len_bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: len_bytes }
}

fn transferred(count: isize, wanted: usize) -> io::Result<()> {
    match usize::try_from(count) {
        Ok(count) if count == wanted => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that fills the counter of its bell, and clears the shared O_NONBLOCK flag.
    #[test]
    fn a_full_bell_blocks_nobody() {
        let bell = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        ring_bell(&bell);
        ring_bell(&bell);
        assert_eq!(rustix::io::read(&bell, &mut [0; 8]), Ok(8));
    }
}
