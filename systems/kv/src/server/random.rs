//! Numbers that nobody can guess.

use longarm_rpc::Status;

/// Fills bytes with random ones of the system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Status> {
    #[cfg(any(test, feature = "sim"))]
    if crate::sim::actor::fill_random(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes).map_err(|error| Status::internal(format!("the system gives no random bytes: {error}")))
}
