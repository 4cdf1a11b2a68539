//! The messages of the hub to a session for managing connections.

use crate::channel::{ReceiveError, ReceivedMessage};
use crate::client::hub_connection::HubConnection;
use crate::mad::{AddressedMad, HubFrame};
use crate::message::Reply;

/// A message of the hub.
pub(super) enum HubMessage {
    /// A MAD that has arrived.
    Mad(AddressedMad),
    /// A MAD that the network could not deliver, with the errno.
    Undelivered(u32, AddressedMad),
    /// A message of the text protocol.
    Reply(Reply),
}

impl HubMessage {
    /// Reads the next message, if there is one.
    ///
    /// # Errors
    /// The reason if the hub is lost.
    pub(super) fn receive(hub: &HubConnection) -> Result<Option<HubMessage>, String> {
        let Some(ReceivedMessage { bytes, mut descriptors, is_cut, .. }) = hub.receive()? else { return Ok(None) };
        if is_cut {
            return Err(ReceiveError::NoDescriptorsLeft.to_string());
        }
        if !HubFrame::is_frame(&bytes) {
            let reply = Reply::decode(&bytes, &mut descriptors).map_err(|error| error.to_string())?;
            return Ok(Some(HubMessage::Reply(reply)));
        }
        match HubFrame::decode(&bytes) {
            Some(HubFrame::Mad(packet)) => Ok(Some(HubMessage::Mad(packet))),
            Some(HubFrame::Undelivered(errno, packet)) => Ok(Some(HubMessage::Undelivered(errno, packet))),
            _ => Err("it sent a malformed frame".into()),
        }
    }
}
