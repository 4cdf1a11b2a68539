//! The reasons why a registration verb is refused.

/// A refused call on a [`Registry`](crate::Registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MrError {
    /// There is no such protection domain.
    #[error("no such protection domain")]
    UnknownPd,
    /// There is no such memory region or window, or it has ended.
    #[error("no such memory region or window")]
    UnknownId,
    /// The access flags hold bits that have no meaning for a memory region.
    #[error("the access flags hold bits that mean nothing for a memory region")]
    UnknownRights,
    /// Remote write or atomic without local write (IB specification 10.6.3.1).
    #[error("remote write and remote atomic access need local write access too")]
    NeedsLocalWrite,
    /// Access for FLUSH with persistence: no memory that this process can map is known to survive a power
    /// loss.
    #[error("ordinary memory cannot be registered for persistence")]
    NotPersistent,
    /// The range ends beyond the address space, as a pointer or in the region's own numbering.
    #[error("the range wraps around the end of the address space")]
    Wraps,
    /// A part of the range is not mapped.
    #[error("the range is not all mapped memory")]
    Unmapped,
    /// A part of the range may not be read, or not written although local write access was asked for.
    #[error("the range's pages do not allow the access that was asked for")]
    Protected,
    /// On-demand memory, and the kernel does not allow `process_vm_readv` within this process.
    #[error("on-demand memory needs process_vm_readv, which the system does not allow")]
    NoOnDemand,
    /// The table of regions and windows is full.
    #[error("no more memory regions and windows can be made")]
    Full,
    /// Something depends on the object: regions, windows or queues on a protection domain, bound windows on a
    /// region.
    #[error("regions, windows or queues still use it")]
    Busy,
}

impl MrError {
    /// The `errno` value that the verbs report for this error.
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
