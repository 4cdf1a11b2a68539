//! Waiting.

use libc::{c_int, fd_set, nfds_t, pollfd, timeval};

use super::select::Sets;
use crate::boundary::{Errno, minus_one};

/// As poll(2), for sockets of either kind.
///
/// # Safety
/// `fds` points to `nfds` entries.
pub(crate) unsafe extern "C" fn rpoll(fds: *mut pollfd, nfds: nfds_t, timeout: c_int) -> c_int {
    minus_one(|| {
        let count = usize::try_from(nfds).map_err(|_| Errno::INVAL)?;
        if fds.is_null() && count > 0 {
            return Err(Errno(libc::EFAULT));
        }
        let fds = match count {
            0 => &mut [][..],
            // SAFETY: the contract of `rpoll`: `fds` points to `nfds` entries.
            _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
        };
        Ok(::rsocket::poll(fds, timeout)? as c_int)
    })
}

/// As select(2), for sockets of either kind.
///
/// # Safety
/// Each set is null or has room for `nfds` bits.
pub(crate) unsafe extern "C" fn rselect(
    nfds: c_int,
    readfds: *mut fd_set,
    writefds: *mut fd_set,
    exceptfds: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    minus_one(|| {
        let nfds = usize::try_from(nfds).ok().filter(|nfds| *nfds <= libc::FD_SETSIZE).ok_or(Errno::INVAL)?;
        // SAFETY: the contract of `rselect`: each set is null or has room for `nfds` bits; up to what a set has.
        let sets = unsafe { Sets::new(nfds, [readfds, writefds, exceptfds]) };
        // SAFETY: the contract of `rselect`: each set is null or has room for `nfds` bits.
        let timeout = unsafe { timeout.as_ref() }.map_or(Ok(-1), milliseconds)?;
        let mut fds = sets.wanted();
        ::rsocket::poll(&mut fds, timeout)?;
        Ok(sets.tell(&fds))
    })
}

/// Rounded up, so that nobody wakes too early.
fn milliseconds(time: &timeval) -> Result<c_int, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::INVAL)?;
    let millis = seconds.saturating_mul(1000).saturating_add(micros.div_ceil(1000));
    Ok(c_int::try_from(millis).unwrap_or(c_int::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let time = |tv_sec, tv_usec| milliseconds(&timeval { tv_sec, tv_usec });
        assert_eq!(time(0, 0), Ok(0));
        assert_eq!(time(1, 1), Ok(1001));
        assert_eq!(time(i64::MAX, 0), Ok(c_int::MAX));
        assert_eq!(time(-1, 0), Err(Errno::INVAL));
    }
}
