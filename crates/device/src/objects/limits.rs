//! The limits of a device, as `query_device` reports them. Counts are those of one process.

use std::sync::OnceLock;

use crate::error::Error;

/// Limits of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests in one queue.
    pub max_qp_wr: u32,
    /// Entries of a scatter/gather list.
    pub max_sge: u32,
    /// Entries of that of a READ.
    pub max_read_sge: u32,
    /// Bytes of inline data.
    pub max_inline_bytes: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions and windows together.
    pub max_mr: u32,
    /// Bytes of a memory region.
    pub max_mr_bytes: u64,
    /// Memory windows.
    pub max_mw: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Address handles, for callers that have such: a device has none.
    pub max_ah: u32,
    /// Work requests in a shared receive queue.
    pub max_srq_wr: u32,
    /// Entries of their lists.
    pub max_srq_sge: u32,
    /// READs and atomics that a queue pair may have outstanding, in either role.
    pub max_rd_atomic: u8,
    /// Multicast groups.
    pub max_mcast_groups: u32,
    /// Queue pairs attached to one group.
    pub max_mcast_qp: u32,
    /// Bytes of the longest message.
    pub max_message_bytes: u64,
    /// Partition keys.
    pub max_pkeys: u16,
}

/// The limits of every device of this crate.
pub(crate) const LIMITS: Limits = Limits {
    max_qp: ::shm::MAX_SLOTS as u32 * crate::objects::table::NUMBERS,
    max_qp_wr: 1 << 16,
    max_sge: 32,
    max_read_sge: 32,
    max_inline_bytes: 1024,
    max_cq: 1 << 18,
    max_cqe: 1 << 22,
    max_mr: memory::Registry::CAPACITY,
    max_mr_bytes: isize::MAX as u64,
    max_mw: memory::Registry::CAPACITY,
    max_pd: 1 << 18,
    max_srq: 1 << 18,
    max_ah: 1 << 20,
    max_srq_wr: 1 << 16,
    max_srq_sge: 32,
    max_rd_atomic: 128,
    max_mcast_groups: 4096,
    max_mcast_qp: 256,
    max_message_bytes: transport::MAX_MESSAGE_BYTES,
    max_pkeys: 1,
};

/// The limits of every device, as far as the system's settings let them be reached.
pub(crate) fn reachable() -> Limits {
    Limits { max_mcast_groups: LIMITS.max_mcast_groups.min(max_memberships()), ..LIMITS }
}

/// The number of groups that the kernel lets one socket join; its default if it does not tell.
fn max_memberships() -> u32 {
    const DEFAULT: u32 = 20;
    static MOST: OnceLock<u32> = OnceLock::new();
    *MOST.get_or_init(|| {
        let setting = std::fs::read_to_string("/proc/sys/net/ipv4/igmp_max_memberships");
        setting.ok().and_then(|number| number.trim().parse().ok()).unwrap_or(DEFAULT)
    })
}

/// Refuses a number above a limit.
pub(crate) fn check(what: &'static str, asked: u32, max: u32) -> Result<(), Error> {
    if asked <= max { Ok(()) } else { Err(Error::Limit { what, asked: asked.into(), max: max.into() }) }
}
