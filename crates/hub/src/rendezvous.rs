//! The directory with the socket where the clients of one user and one network namespace find their hub.
//!
//! It is `$LONGARM_RUNTIME_DIR` if that is set, else `longarm` in `$XDG_RUNTIME_DIR` or in
//! `/run/user/UID` if that is ours. Else it is `/run/longarm` for root and `/tmp/longarm-UID` for
//! others (`directory` tells what happens if another user has made that). The directory must be ours
//! and closed to all others. The names of its files hold the inode number of the network namespace:
//! `hub-4026531840.sock` is the socket, `.lock` the lock that the one hub holds. The hubs of all
//! namespaces share `hub.log`.
//!
//! The directory is opened once and checked through its descriptor. All files in it are
//! reached through that descriptor, so no process can exchange it in between. Its path may be
//! longer than a socket address.
//!
//! Outside this module: it sends nothing over a connection.

mod directory;
mod lock;
#[cfg(test)]
mod tests;

pub use directory::RUNTIME_DIR_VARIABLE;
pub(crate) use lock::HubLock;

use crate::sys::{self, PeerProcess};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most connections that wait for the hub to accept them.
const BACKLOG: i32 = 128;

/// The reason why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RendezvousError {
    /// The directory is not private.
    #[error("{path} cannot be used for the hub's socket: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    System {
        /// The attempted step.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
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

/// The reason why a client cannot connect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubConnectError {
    /// No hub listens.
    #[error("no hub listens")]
    NobodyListens,
    /// Too many other connections wait to be accepted.
    #[error("the hub is busy")]
    Busy,
    /// Another user listens.
    #[error("user {uid} listens")]
    WrongUser { uid: u32 },
    /// The system refused.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// The open directory, and the names in it.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    directory: OwnedFd,
    path: PathBuf,
    namespace: u64,
}

/// The path of the directory, to open it again.
#[derive(Debug)]
pub(crate) struct RendezvousLocation {
    path: PathBuf,
    namespace: u64,
}

impl RendezvousLocation {
    /// Opens the directory again, and makes it if it was removed. The network
    /// namespace stays the same, also if this thread is in another one.
    pub(crate) fn open(&self) -> Result<Rendezvous, RendezvousError> {
        let (path, directory) = directory::open(Some(&self.path))?;
        Ok(Rendezvous { directory, path, namespace: self.namespace })
    }
}

impl Rendezvous {
    /// Finds the directory for this thread's network namespace, and makes it if
    /// necessary. `runtime_dir` overrides the environment.
    pub(crate) fn find(runtime_dir: Option<&Path>) -> Result<Rendezvous, RendezvousError> {
        let (path, directory) = directory::open(runtime_dir)?;
        Ok(Rendezvous { directory, path, namespace: network_namespace()? })
    }

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

    /// Listens on the socket. The caller holds the [`HubLock`], so a socket file that is there
    /// belongs to a dead hub, and is replaced.
    pub(crate) fn listen(&self) -> Result<OwnedFd, RendezvousError> {
        let failed = |what| move |error: Errno| self.error(what, error);
        let socket = socket().map_err(failed("open a socket for"))?;
        self.unlink("sock");
        rustix::net::bind(&socket, &self.address().map_err(failed("name"))?).map_err(failed("bind"))?;
        rustix::net::listen(&socket, BACKLOG).map_err(failed("listen on"))?;
        Ok(socket)
    }

    /// Connects to the hub without waiting, and checks that it is this user's.
    pub(crate) fn connect(&self) -> Result<OwnedFd, HubConnectError> {
        let connect = || {
            let socket = guest::high(socket()?);
            guest::fork::close_in_children(&socket);
            rustix::net::connect(&socket, &self.address()?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|error: Errno| match error {
            Errno::NOENT | Errno::CONNREFUSED => HubConnectError::NobodyListens,
            Errno::AGAIN | Errno::INTR => HubConnectError::Busy,
            other => HubConnectError::System(other.into()),
        })?;
        match own_peer(socket.as_fd()).map_err(HubConnectError::System)? {
            Ok(_) => Ok(socket),
            Err(stranger) => Err(HubConnectError::WrongUser { uid: stranger.uid }),
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

    /// The socket's address, which names the directory's descriptor.
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

/// The process at the other end: `Ok` if it is this user's, `Err` if it is another user's.
pub(crate) fn own_peer(socket: BorrowedFd<'_>) -> io::Result<Result<PeerProcess, PeerProcess>> {
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
