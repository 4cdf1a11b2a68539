//! The closing messages of one process: a DREQ or REJ for each connection, which the hub sends to the
//! peer when the process dies.

use crate::mad::{ClosingMessage, HubFrame};
use std::collections::BTreeMap;

/// Most closing messages of one process.
pub(crate) const MAX_CLOSING_MESSAGES: usize = 1 << 17;

/// Closing messages by the keys that the process gave them. The process and the hub each hold a copy.
#[derive(Debug, Default)]
pub(crate) struct ClosingMessages {
    by_key: BTreeMap<u32, ClosingMessage>,
}

impl ClosingMessages {
    /// Adds a message, or replaces the one with this key. Returns whether there was room.
    pub(crate) fn set(&mut self, key: u32, message: ClosingMessage) -> bool {
        let has_room = self.by_key.len() < MAX_CLOSING_MESSAGES || self.by_key.contains_key(&key);
        if has_room {
            self.by_key.insert(key, message);
        }
        has_room
    }

    /// Returns whether there was one.
    pub(crate) fn clear(&mut self, key: u32) -> bool {
        self.by_key.remove(&key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_key.keys().copied()
    }

    /// All messages, in the order of their keys.
    pub(crate) fn into_messages(self) -> impl Iterator<Item = ClosingMessage> {
        self.by_key.into_values()
    }

    /// The frame that gives the hub the current message of a key, or withdraws it.
    pub(crate) fn frame(&self, key: u32) -> Vec<u8> {
        match self.by_key.get(&key) {
            Some(message) => HubFrame::SetClosingMessage(key, message.clone()).encode(),
            None => HubFrame::ClearClosingMessage(key).encode(),
        }
    }
}
