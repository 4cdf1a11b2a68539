//! The last messages of this process, as the hub should know them.

use crate::mad::{ClosingMessage, Frame};
use std::collections::BTreeMap;

/// Most closing messages of one process.
pub(crate) const MAX_CLOSING_MESSAGES: usize = 1 << 17;

/// ClosingMessages by the keys that their owner gave them.
#[derive(Debug, Default)]
pub(super) struct ClosingMessages {
    by_key: BTreeMap<u32, ClosingMessage>,
}

impl ClosingMessages {
    /// Returns whether there was room.
    pub(super) fn set(&mut self, key: u32, message: ClosingMessage) -> bool {
        let room = self.by_key.len() < MAX_CLOSING_MESSAGES || self.by_key.contains_key(&key);
        if room {
            self.by_key.insert(key, message);
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

    /// What the hub is to be told about this closing message now.
    pub(super) fn frame(&self, key: u32) -> Vec<u8> {
        match self.by_key.get(&key) {
            Some(message) => Frame::SetClosingMessage(key, message.clone()).encode(),
            None => Frame::ClearClosingMessage(key).encode(),
        }
    }
}
