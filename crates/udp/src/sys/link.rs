//! Properties of links that their drivers report by `ioctl`.

use super::check;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};

/// `ETHTOOL_GSET`: reads the link's settings; needs no privilege.
const ETHTOOL_GSET: u32 = 1;

/// `struct ethtool_cmd`.
#[derive(Default)]
#[repr(C)]
struct LinkSettings {
    cmd: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    modes: [u8; 6],
    packets: [u32; 2],
    speed_high: u16,
    more: [u8; 2],
    rest: [u32; 3],
}

/// The speed of a link, if its driver reports one.
pub(crate) fn speed_mbps(interface: &str) -> Option<u32> {
    let mut settings = LinkSettings { cmd: ETHTOOL_GSET, ..Default::default() };
    let mut request = named(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut settings).cast();
    let socket = super::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).ok()?;
    // SAFETY: for ETHTOOL_GSET the kernel reads and writes one `struct ethtool_cmd` (44 bytes, the size of
    // `settings`) at `ifru_data`. `settings` outlives the call.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) }).ok()?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    (speed != 0 && speed != u32::MAX).then_some(speed)
}

/// An interface request with this name; `None` if the name is too long or contains a zero.
pub(crate) fn named(interface: &str) -> Option<libc::ifreq> {
    let name = CString::new(interface).ok()?;
    // SAFETY: all fields are integers, arrays of them, or pointers that may be null.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len();
    if name.as_bytes_with_nul().len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    Some(request)
}

const _: () = assert!(size_of::<LinkSettings>() == 44);
