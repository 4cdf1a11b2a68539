//! Where hub and clients of one user and one network namespace meet.
//!
//! The place is a private directory: `$LONGARM_RUNTIME_DIR`, else `longarm` in
//! `$XDG_RUNTIME_DIR` or in `/run/user/UID` if that is ours, else `/run/longarm` for root and
//! `/tmp/longarm-UID` for others (`directory` tells what if another user made that). It must
//! be a directory of our own that nobody else can enter. Files in it carry the inode number
//! of the network namespace: `hub-4026531840.sock` is the socket, `.lock` the lock that the
//! one hub holds. `hub.log` is shared by the hubs of all namespaces.
//!
//! The directory is opened once and checked through its descriptor; everything in it is then
//! reached through that descriptor, so it cannot be exchanged in between, and its path may be
//! longer than a socket address.
//!
//! What this module does not do: it says nothing over a connection.

mod directory;
mod lock;
#[cfg(test)]
mod tests;

pub use directory::RUNTIME_DIR_VARIABLE;
pub(crate) use lock::Lock;

use crate::sys::{self, Peer};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Connections that may wait for the hub to accept them.
const BACKLOG: i32 = 128;

/// Why there is no place to meet.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// The directory is not private.
    #[error("{path} cannot be used for the hub's socket: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl RendezvousError {
    /// The nearest error number.
    pub fn errno(&self) -> i32 {
        match self {
            RendezvousError::Unsafe { .. } => libc::EPERM,
            RendezvousError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// Nobody listens.
    #[error("nobody listens")]
    NobodyListens,
    /// Too many others are waiting to be accepted.
    #[error("the hub is busy")]
    Busy,
    /// Another user listens.
    #[error("user {uid} listens")]
    WrongUser { uid: u32 },
    /// The system refused.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// The directory and the names in it.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    directory: OwnedFd,
    path: PathBuf,
    namespace: u64,
}

/// Where the directory is, without a descriptor of it.
#[derive(Debug)]
pub(crate) struct RendezvousLocation {
    path: PathBuf,
    namespace: u64,
}

impl RendezvousLocation {
    /// Opens the directory anew, and makes it if it has been removed, for the same network
    /// namespace, whichever this thread's is.
    pub(crate) fn open(&self) -> Result<Rendezvous, RendezvousError> {
        let (path, directory) = directory::open(Some(&self.path))?;
        Ok(Rendezvous { directory, path, namespace: self.namespace })
    }
}

impl Rendezvous {
    /// Finds the place for this thread's network namespace, and makes the directory if
    /// necessary. `runtime_dir` overrides the environment.
    pub(crate) fn find(runtime_dir: Option<&Path>) -> Result<Rendezvous, RendezvousError> {
        let (path, directory) = directory::open(runtime_dir)?;
        Ok(Rendezvous { directory, path, namespace: network_namespace()? })
    }

    /// Where it is.
    pub(crate) fn location(&self) -> RendezvousLocation {
        RendezvousLocation { path: self.path.clone(), namespace: self.namespace }
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The network namespace's inode number.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// The socket's path, for messages.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.path.join(self.file("sock"))
    }

    /// Listens on the socket. The caller holds the [`Lock`], so a socket file that is there
    /// belongs to a hub that died, and is replaced.
    pub(crate) fn listen(&self) -> Result<OwnedFd, RendezvousError> {
        let failed = |what| move |error: Errno| self.error(what, error);
        let socket = socket().map_err(failed("open a socket for"))?;
        self.unlink("sock");
        rustix::net::bind(&socket, &self.address().map_err(failed("name"))?).map_err(failed("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on"))?;
        Ok(socket)
    }

    /// Connects to the hub without waiting, and checks that it is this user's.
    pub(crate) fn connect(&self) -> Result<OwnedFd, ConnectError> {
        let connect = || {
            let socket = guest::high(socket()?);
            guest::fork::leave_behind(&socket);
            rustix::net::connect(&socket, &self.address()?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error: Errno| match error {
            Errno::NOENT | Errno::CONNREFUSED => ConnectError::NobodyListens,
            Errno::AGAIN | Errno::INTR => ConnectError::Busy,
            other => ConnectError::System(other.into()),
        })?;
        match own_peer(socket.as_fd()).map_err(ConnectError::System)? {
            Ok(_) => Ok(socket),
            Err(stranger) => Err(ConnectError::WrongUser { uid: stranger.uid }),
        }
    }

    /// The inode number of the socket file, if there is one.
    pub(crate) fn socket_inode(&self) -> Option<u64> {
        let stat = rustix::fs::statat(&self.directory, self.file("sock"), AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().map(|stat| stat.st_ino)
    }

    /// Removes one of this namespace's files.
    pub(crate) fn unlink(&self, extension: &str) {
        if let Err(error) = rustix::fs::unlinkat(&self.directory, self.file(extension), AtFlags::empty())
            && error != Errno::NOENT
        {
            log::warn!("cannot remove {}: {error}", self.path.join(self.file(extension)).display());
        }
    }

    /// The name of one of this namespace's files.
    fn file(&self, extension: &str) -> String {
        format!("hub-{}.{extension}", self.namespace)
    }

    /// The socket's address, by way of the directory's descriptor.
    fn address(&self) -> Result<SocketAddrUnix, Errno> {
        let directory = self.directory.as_raw_fd();
        SocketAddrUnix::new(format!("/proc/self/fd/{directory}/{}", self.file("sock")))
    }

    fn error(&self, what: &'static str, error: Errno) -> RendezvousError {
        RendezvousError::System { what, path: self.socket_path(), source: error.into() }
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Who is at the other end: `Ok` if it is this user, `Err` if it is somebody else.
pub(crate) fn own_peer(socket: BorrowedFd<'_>) -> io::Result<Result<Peer, Peer>> {
    let peer = sys::peer(socket)?;
    let own = peer.uid == rustix::process::geteuid().as_raw();
    Ok(if own { Ok(peer) } else { Err(peer) })
}

/// The inode number of this thread's network namespace.
pub(crate) fn network_namespace() -> Result<u64, RendezvousError> {
    let path = Path::new("/proc/thread-self/ns/net");
    let inode = std::fs::metadata(path).map(|metadata| metadata.st_ino());
    inode.map_err(|source| RendezvousError::System { what: "read", path: path.into(), source })
}
