//! Why a registration verb was refused.

/// A refused call on a [`Registry`](crate::Registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MrError {
    /// No such protection domain.
    #[error("no such protection domain")]
    UnknownPd,
    /// No such memory region or window, or it is gone already.
    #[error("no such memory region or window")]
    UnknownId,
    /// Access flags that mean nothing here.
    #[error("the access flags hold bits that mean nothing for a memory region")]
    UnknownRights,
    /// Remote write or atomic without local write (IB specification 10.6.3.1).
    #[error("remote write and remote atomic access need local write access too")]
    NeedsLocalWrite,
    /// Access for FLUSH with persistence: no memory that this process can map is known to
    /// survive a loss of power.
    #[error("ordinary memory cannot be registered for persistence")]
    NotPersistent,
    /// The range ends beyond the address space, as a pointer or as the region numbers it.
    #[error("the range wraps around the end of the address space")]
    Wraps,
    /// Some of the range is not mapped.
    #[error("the range is not all mapped memory")]
    Unmapped,
    /// Some of the range may not be read, or not written although local write was asked.
    #[error("the range's pages do not allow the access that was asked for")]
    Protected,
    /// On-demand memory, and the kernel does not let us copy within our own process.
    #[error("on-demand memory needs process_vm_readv, which the system does not allow")]
    NoOnDemand,
    /// The table is full.
    #[error("no more memory regions and windows can be made")]
    Full,
    /// Something depends on it: regions, windows or queues on a protection domain,
    /// bound windows on a region.
    #[error("still in use")]
    Busy,
}

impl MrError {
    /// The `errno` that the verbs report for it.
    pub fn errno(self) -> i32 {
        match self {
            MrError::UnknownPd
            | MrError::UnknownId
            | MrError::UnknownRights
            | MrError::NeedsLocalWrite
            | MrError::NotPersistent
            | MrError::Wraps => libc::EINVAL,
            MrError::Unmapped | MrError::Protected => libc::EFAULT,
            MrError::NoOnDemand => libc::EOPNOTSUPP,
            MrError::Full => libc::ENOMEM,
            MrError::Busy => libc::EBUSY,
        }
    }
}
