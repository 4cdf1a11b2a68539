//! Errors of calls.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};

use connect::Error;

/// The result of a function that returns zero, or sets `errno`.
pub(super) fn check(call: &'static str, result: c_int) -> Result<(), Error> {
    if result == 0 { Ok(()) } else { Err(failed(call)) }
}

/// The error of the function that has failed in this thread just now.
pub(super) fn failed(call: &'static str) -> Error {
    Error::Call { call, error: io::Error::last_os_error() }
}

/// The error of binding to an address.
pub(super) fn of_bind(error: Error, address: IpAddr) -> Error {
    match error.errno() {
        libc::EADDRINUSE => Error::InUse,
        libc::EADDRNOTAVAIL | libc::ENODEV => Error::NotAvailable(address),
        _ => error,
    }
}

/// The error of resolving an address or its route.
pub(super) fn of_resolve(error: Error, source: Option<SocketAddr>, destination: SocketAddr) -> Error {
    match (error.errno(), source) {
        (libc::EADDRINUSE, _) => Error::InUse,
        (libc::EADDRNOTAVAIL | libc::ENODEV, Some(source)) => Error::NotAvailable(source.ip()),
        (libc::EADDRNOTAVAIL | libc::ENODEV, None) | (libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ETIMEDOUT, _) => {
            Error::Unreachable(destination.ip())
        }
        _ => error,
    }
}

/// The error of an answer to a peer, or of the attributes for it. In most cases the peer has given up meanwhile.
pub(super) fn of_answer(error: Error) -> Error {
    match error.errno() {
        // The last two are those of Soft-iWARP.
        libc::EINVAL | libc::ENOTCONN | libc::ECONNRESET | libc::EBADFD => {
            Error::State("the peer has given up, or was answered")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(errno: i32) -> Error {
        Error::Call { call: "rdma_create_ep", error: io::Error::from_raw_os_error(errno) }
    }

    #[test]
    fn errors_have_the_words_of_the_crate_connect() {
        let [here, there] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 7471)));
        assert!(matches!(of_bind(error(libc::EADDRINUSE), here.ip()), Error::InUse));
        assert!(matches!(of_bind(error(libc::ENODEV), here.ip()), Error::NotAvailable(ip) if ip == here.ip()));
        let resolve = |errno, source| of_resolve(error(errno), source, there);
        assert!(matches!(resolve(libc::ENODEV, Some(here)), Error::NotAvailable(ip) if ip == here.ip()));
        assert!(matches!(resolve(libc::ENODEV, None), Error::Unreachable(ip) if ip == there.ip()));
        assert!(matches!(resolve(libc::EHOSTUNREACH, Some(here)), Error::Unreachable(ip) if ip == there.ip()));
        assert!(matches!(of_answer(error(libc::EINVAL)), Error::State(_)));
    }

    #[test]
    fn other_errors_name_the_call() {
        let other = of_bind(error(libc::EPERM), [192, 0, 2, 1].into());
        assert_eq!(other.errno(), libc::EPERM);
        assert!(other.to_string().starts_with("rdma_create_ep: "), "{other}");
    }
}
