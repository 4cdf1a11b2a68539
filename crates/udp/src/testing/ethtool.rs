//! Switches for a link's features, like the program `ethtool -K`.

use crate::sys::{check, link, socket};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The string set with the names of features.
const SET_OF_FEATURES: u32 = 4;
const NAME_WORDS: usize = 8;

/// Switches a feature such as `tx-udp-segmentation` on or off.
pub(super) fn switch(interface: &str, feature: &str, on: bool) -> io::Result<()> {
    let names = feature_names(interface)?;
    let index = names.iter().position(|name| name == feature).ok_or(io::ErrorKind::NotFound)?;
    let blocks = names.len().div_ceil(32);
    // `struct ethtool_sfeatures`: command, blocks, and for each block of 32 features a mask of those to
    // change and their new values.
    let mut request = vec![0; 2 + 2 * blocks];
    request[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    let block = 2 + 2 * (index / 32);
    request[block] = 1 << (index % 32);
    request[block + 1] = u32::from(on) << (index % 32);
    call(interface, &mut request)
}

/// The names of all features of this kernel, in the order of their numbers.
fn feature_names(interface: &str) -> io::Result<Vec<String>> {
    // `struct ethtool_sset_info`: command, reserved, mask:8, and the size of the requested set.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << SET_OF_FEATURES, 0, 0, 0];
    call(interface, &mut info)?;
    let count = info[4] as usize;
    // `struct ethtool_gstrings`: command, set, count, and names of 32 bytes.
    let mut strings = vec![0; 3 + count * NAME_WORDS];
    strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, SET_OF_FEATURES, count as u32]);
    call(interface, &mut strings)?;
    Ok(strings[3..].chunks_exact(NAME_WORDS).map(name).collect())
}

fn name(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}

fn call(interface: &str, words: &mut [u32]) -> io::Result<()> {
    let mut request = link::named(interface).ok_or(io::ErrorKind::InvalidInput)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: the callers above size `words` for all that the kernel reads and writes there, for each of the
    // three commands. It lives until the call returns.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) }).map(drop)
}
