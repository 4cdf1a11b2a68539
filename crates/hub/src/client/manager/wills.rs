//! The last messages of this process, as the hub should know them.

use crate::mad::{Frame, Will};
use std::collections::BTreeMap;

/// Most wills of one process.
pub(crate) const MAX_WILLS: usize = 1 << 17;

/// Wills by the keys that their owner gave them.
#[derive(Debug, Default)]
pub(super) struct Wills {
    by_key: BTreeMap<u32, Will>,
}

impl Wills {
    /// Returns whether there was room.
    pub(super) fn set(&mut self, key: u32, will: Will) -> bool {
        let room = self.by_key.len() < MAX_WILLS || self.by_key.contains_key(&key);
        if room {
            self.by_key.insert(key, will);
        }
        room
    }

    /// Returns whether there was one.
    pub(super) fn clear(&mut self, key: u32) -> bool {
        self.by_key.remove(&key).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_key.keys().copied()
    }

    /// What the hub is to be told about this will now.
    pub(super) fn frame(&self, key: u32) -> Vec<u8> {
        match self.by_key.get(&key) {
            Some(will) => Frame::SetWill(key, will.clone()).encode(),
            None => Frame::ClearWill(key).encode(),
        }
    }
}
