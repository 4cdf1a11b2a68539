//! The interface of a client whose operations are under way together.

use super::scans::ScanChoice;
use crate::error::Error;

/// A client of any system. Operations of a batch are under way together.
pub(super) trait BatchClient {
    /// Reads keys, and returns how many there are.
    fn read(&mut self, keys: &[[u8; 20]]) -> Result<usize, Error>;
    /// Gives keys this value.
    fn write(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error>;
    /// Gives keys this value that may be new.
    fn insert(&mut self, keys: &[[u8; 20]], value: &[u8]) -> Result<(), Error> {
        self.write(keys, value)
    }
    /// Reads ranges of keys with their values, and returns how many ranges had a key.
    fn scan(&mut self, scans: &[ScanChoice]) -> Result<usize, Error>;
    /// READs up to now, if the client does READs.
    fn reads(&self) -> Option<u64> {
        None
    }
    /// PUTs up to now that the client did alone, if it does so.
    fn puts_alone(&self) -> Option<u64> {
        None
    }
}
