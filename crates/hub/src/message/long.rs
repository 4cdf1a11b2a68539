//! Replies that are too long for a message: the content of a sealed memfd.

use super::MessageError;
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most bytes of a reply in a file.
pub(super) const MAX_FILE_BYTES: u64 = 64 << 20;

/// A sealed memfd with the given content.
pub(super) fn file(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create("longarm-reply", flags)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&memfd, rest)?;
        rest = &rest[written..];
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memfd, seals)?;
    Ok(memfd)
}

/// The content of another process's memfd, if its seals forbid changes.
pub(super) fn content(memfd: BorrowedFd<'_>) -> Result<Vec<u8>, MessageError> {
    let seals = rustix::fs::fcntl_get_seals(memfd).map_err(|_| MessageError::File("is not a memfd"))?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::WRITE) {
        return Err(MessageError::File("is not sealed"));
    }
    let stat = rustix::fs::fstat(memfd).map_err(|_| MessageError::File("has no size"))?;
    let len_bytes = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if len_bytes > MAX_FILE_BYTES {
        return Err(MessageError::File("is too long"));
    }
    let mut content = vec![0; len_bytes as usize];
    let mut filled = 0;
    while filled < content.len() {
        match rustix::io::pread(memfd, &mut content[filled..], filled as u64) {
            Ok(0) | Err(_) => return Err(MessageError::File("cannot be read")),
            Ok(read) => filled += read,
        }
    }
    Ok(content)
}
