//! Numbers that nobody can guess.

#[cfg(any(test, feature = "sim"))]
use crate::sim::actor;

use longarm_rpc::Status;

/// Fills bytes with random ones of the system.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Status> {
    #[cfg(any(test, feature = "sim"))]
    if actor::fill_random(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes).map_err(|error| Status::internal(format!("the system gives no random bytes: {error}")))
}
