//! The interface of a client whose operations are under way together.

use crate::error::Error;

/// A client of any system. Operations of a batch are under way together.
pub(super) trait BatchClient {
    /// Reads keys, and returns how many there are.
    fn read(&mut self, keys: &[[u8; 20]]) -> Result<usize, Error>;
    /// Gives keys this value.
    fn write(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error>;
    /// READs up to now, if the client does READs.
    fn reads(&self) -> Option<u64> {
        None
    }
}
