//! The secret that both ends have.

use std::fmt;
use std::sync::Arc;

use crate::code::Executed;
use crate::status::Status;

/// The shortest secret, in bytes: 128 bits.
const SHORTEST: usize = 16;

/// A secret that all clients and the server have. It must be drawn at random: someone who sees a handshake can try
/// passwords at leisure.
#[derive(Clone)]
pub struct SharedSecret(Arc<[u8]>);

impl SharedSecret {
    /// A key of these bytes.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) if they are fewer than 16.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<SharedSecret, Status> {
        let secret = secret.as_ref();
        if secret.len() < SHORTEST {
            let words = format!("a shared key of {} bytes: it needs at least {SHORTEST}", secret.len());
            return Err(Status::invalid_argument(words).with_executed(Executed::No));
        }
        Ok(SharedSecret(secret.into()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(…)")
    }
}
