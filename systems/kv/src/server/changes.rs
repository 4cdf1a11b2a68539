//! The log of changes, as the writer of a table knows it.

use longarm_rpc::Status;

/// Takes each change of one table before it happens, in their order. A refusal means that the change must not happen.
pub(crate) trait ChangeLog: Send {
    /// A key gets a value. Returns the stamp of the change. The expiry is in the server's clock, zero for none.
    fn put(&mut self, key: &[u8], value: &[u8], expires_ns: u64) -> Result<u64, Status>;
    /// A key goes, because a client deletes it or it makes way for others.
    fn delete(&mut self, key: &[u8]) -> Result<(), Status>;
    /// A key goes whose time is over. It is no change of what anybody may see, so there is no refusal.
    fn expire(&mut self, key: &[u8]);
    /// A key goes because another primary deleted it, or this server has no part in its slot.
    fn forget(&mut self, _key: &[u8]) -> Result<(), Status> {
        Ok(())
    }
    /// A change that was told has not happened. The key has this value with this stamp and expiry still, or none.
    fn take_back(&mut self, key: &[u8], still: Option<(&[u8], u64, u64)>);
    /// From now on changes are those of another primary, with this stamp; `None`: they are our own again.
    fn apply(&mut self, _stamp: Option<u64>) {}
    /// Whether this key may make way for others: a backup's keys go when their primary says so.
    fn may_evict(&self, _key: &[u8]) -> bool {
        true
    }
}
