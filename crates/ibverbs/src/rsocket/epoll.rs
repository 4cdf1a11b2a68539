//! `repoll_*`, of rdma-core 65: sets of descriptors as epoll(7) has them.

use ::rsocket::{Interest, InterestChange};
use libc::{c_int, epoll_event};

use crate::boundary::{Errno, minus_one};

/// As epoll_create1(2).
pub(crate) extern "C" fn repoll_create1(flags: c_int) -> c_int {
    minus_one(|| match flags {
        0 | libc::EPOLL_CLOEXEC => Ok(::rsocket::epoll_create(flags != 0)?),
        _ => Err(Errno::INVAL),
    })
}

/// Takes a number that may be flags of [`repoll_create1`], or a size as of epoll_create(2), which means nothing.
pub(crate) extern "C" fn repoll_create(number: c_int) -> c_int {
    minus_one(|| match number {
        0.. => Ok(::rsocket::epoll_create(number & libc::EPOLL_CLOEXEC != 0)?),
        _ => Err(Errno::INVAL),
    })
}

/// As epoll_ctl(2).
///
/// # Safety
/// `event` is null or readable.
pub(crate) unsafe extern "C" fn repoll_ctl(set: c_int, op: c_int, fd: c_int, event: *const epoll_event) -> c_int {
    minus_one(|| {
        let wanted = || {
            if event.is_null() {
                return Err(Errno(libc::EFAULT));
            }
            // SAFETY: the contract of `repoll_ctl`: `event` is null or readable.
            let epoll_event { events, u64: data } = unsafe { event.read_unaligned() };
            Ok(Interest { events, data })
        };
        let change = match op {
            libc::EPOLL_CTL_ADD => InterestChange::Add(wanted()?),
            libc::EPOLL_CTL_MOD => InterestChange::Modify(wanted()?),
            libc::EPOLL_CTL_DEL => InterestChange::Delete,
            _ => return Err(Errno::INVAL),
        };
        ::rsocket::epoll_control(set, fd, change)?;
        Ok(0)
    })
}

/// As epoll_wait(2).
///
/// # Safety
/// `events` has room for `max`.
pub(crate) unsafe extern "C" fn repoll_wait(set: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int {
    minus_one(|| {
        let max = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(Errno::INVAL)?;
        if events.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let happened = ::rsocket::epoll_wait(set, max, timeout)?;
        for (i, Interest { events: bits, data }) in happened.iter().enumerate() {
            // SAFETY: the contract of `repoll_wait`: `events` has room for `max`; `max` at most have happened.
            unsafe { events.add(i).write_unaligned(epoll_event { events: *bits, u64: *data }) };
        }
        Ok(happened.len() as c_int)
    })
}
