//! Errors of the port group, with texts that tell a person what to do.

use super::holder::{self, Holder};
use std::fmt;
use std::io;

/// The reason why the sockets on UDP port 4791 cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process or the kernel holds the port.
    #[error("UDP port 4791, which RoCEv2 needs, is taken{}", Holders(holders, *rxe_loaded))]
    Taken {
        /// The holders of sockets on the port, as far as they are visible.
        holders: Vec<Holder>,
        /// True if the kernel's own software RoCE driver (module `rdma_rxe`) is loaded.
        rxe_loaded: bool,
    },
    /// A group has 1 to [`MAX_SLOTS`](super::MAX_SLOTS) slots.
    #[error("{slots} slots asked for, but a port group has 1 to {}", super::MAX_SLOTS)]
    Slots {
        /// The number of slots asked for.
        slots: usize,
    },
    /// A descriptor that should be a socket of the group is something else.
    #[error("descriptor {index} is not a socket on UDP port 4791 like the others")]
    Foreign {
        /// Its index.
        index: usize,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The failed action.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl BindError {
    /// The error for a taken port, with its holders.
    pub(super) fn taken() -> BindError {
        let rxe_loaded = std::path::Path::new("/sys/module/rdma_rxe").exists();
        BindError::Taken { holders: holder::holders(wire::ROCE_PORT), rxe_loaded }
    }

    /// For `map_err`: the system refused `what`.
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> BindError {
        move |source| BindError::System { what, source }
    }

    /// The best matching error number.
    pub fn errno(&self) -> i32 {
        match self {
            BindError::Taken { .. } => libc::EADDRINUSE,
            BindError::Slots { .. } => libc::EINVAL,
            BindError::Foreign { .. } => libc::ENOTSOCK,
            BindError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// The second half of the error text of a taken port.
struct Holders<'a>(&'a [Holder], bool);

impl fmt::Display for Holders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holders(holders, rxe_loaded) = *self;
        for (i, holder) in holders.iter().enumerate() {
            write!(f, "{}{holder}", if i == 0 { " by " } else { ", " })?;
        }
        let kernel = holders.iter().any(Holder::is_kernel);
        if rxe_loaded && (kernel || holders.is_empty()) {
            f.write_str(
                " (the kernel's own software RoCE driver is loaded: remove its devices with \
                 `rdma link delete` or unload it with `modprobe -r rdma_rxe`)",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_holders() {
        let user = Holder { uid: 1000, inode: 7, process: Some((42, "longarm".into())) };
        let error = BindError::Taken { holders: vec![user], rxe_loaded: false };
        assert_eq!(
            error.to_string(),
            "UDP port 4791, which RoCEv2 needs, is taken by process 42 (longarm) of user 1000"
        );
        assert_eq!(error.errno(), libc::EADDRINUSE);
    }

    #[test]
    fn the_message_tells_how_to_get_rid_of_the_kernel_s_driver() {
        let kernel = Holder { uid: 0, inode: 0, process: None };
        let error = BindError::Taken { holders: vec![kernel], rxe_loaded: true };
        let text = error.to_string();
        assert!(text.contains("by the kernel") && text.contains("rdma_rxe"), "{text}");
        let silent = BindError::Taken { holders: vec![], rxe_loaded: false };
        assert!(!silent.to_string().contains("rxe"), "{silent}");
    }
}
