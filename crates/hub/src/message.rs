//! The protocol between the hub and its clients: one JSON object per message.
//!
//! A client begins with [`HubRequest::Hello`]. The hub answers every request with one
//! [`Reply`]. Without a request it sends [`Reply::DevicesChanged`] and [`Reply::Leaving`] to attached and managing
//! clients, and [`Reply::Introduction`] to attached ones. Each message lists the descriptors that are sent with it.
//!
//! Messages about management datagrams are binary (see `mad`). They get no answer; nor does
//! [`HubRequest::Unbind`].
//!
//! A message has at most 64 KiB. A reply that would be longer travels as the content of a
//! sealed memfd, announced by [`Reply::InFile`].
//!
//! Outside this module: it decides nothing about a message, it only gives it a type.

use crate::record::DeviceRecord;
use crate::status::HubStatus;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

mod introductions;
mod long;
mod ports;

pub use crate::channel::MAX_MESSAGE_BYTES;
pub use introductions::IntroductionRefusal;
pub use ports::{BindRefusal, BindSpec};

/// The protocol's version. Hub and client must have the same.
pub const VERSION: u32 = 3;

/// Longest name of a program; longer ones are cut.
pub const MAX_PROGRAM_CHARS: usize = 64;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum HubRequest {
    /// The first message.
    Hello {
        /// The client's version of the protocol.
        version: u32,
        /// The client's own process number, used if the kernel does not tell the hub.
        pid: u32,
        /// The program's name.
        program: String,
    },
    /// Asks for a slot. Descriptors: the counter page, if `counters`; the export and the wake of
    /// its shm offer, if `shm`.
    Attach {
        /// The preferred slot.
        slot: Option<u8>,
        /// Whether a counter page is sent.
        counters: bool,
        /// Whether a shm offer is sent.
        #[serde(rename = "local")]
        shm: bool,
    },
    /// The client was attached to a hub that died. Descriptors: the keeper; the socket of each
    /// slot, in order; then as with `Attach`.
    Reattach {
        /// The slots that the client has.
        slots: Vec<u8>,
        /// Whether a counter page is sent.
        counters: bool,
        /// Whether a shm offer is sent.
        #[serde(rename = "local")]
        shm: bool,
    },
    /// The attached client wants to share memory with the owner of this slot, the peer. Descriptors:
    /// the link, and the peer's end of a socket pair.
    Introduce {
        /// Any slot of the peer.
        slot: u8,
    },
    /// More slots for an attached client.
    MoreSlots {
        /// Their number.
        count: u8,
    },
    /// The attached client gives one of its slots back.
    Release {
        /// The slot.
        slot: u8,
    },
    /// The client manages connections: it gets the MADs for its number and its ports.
    Manage {
        /// The number that it had with a hub that died.
        number: Option<u16>,
    },
    /// A managing client wants a port.
    Bind {
        /// The client's identifier for it.
        token: u64,
        /// The port space, address and port.
        #[serde(rename = "wish")]
        spec: BindSpec,
        /// Whether to listen as well.
        listening: bool,
        /// Whether the client had the port with a hub that died. Then the address need not exist.
        again: bool,
    },
    /// Connection requests to this port are for the client from now on.
    Listen {
        /// The port.
        token: u64,
    },
    /// The client gives a port back. Not answered.
    Unbind {
        /// The port.
        token: u64,
    },
    /// Asks for the hub's state.
    Status,
    /// Asks for the devices.
    Devices,
    /// Asks for an answer.
    Ping,
    /// Changes the time without clients after which the hub exits.
    KeepUp {
        /// The time; never if there is none.
        idle_timeout_ms: Option<u64>,
    },
    /// Makes the hub exit.
    Shutdown {
        /// Also if clients are attached. Their connections survive.
        force: bool,
    },
}

/// A message of the hub. Each says which request it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`. If the versions differ the connection ends.
    Welcome {
        /// The hub's version of the protocol.
        version: u32,
        /// The hub's process.
        pid: u32,
    },
    /// To `Attach` and `Reattach`. Descriptors: the keeper; the socket of the slot after an
    /// `Attach`.
    Attached {
        /// The client's slots.
        slots: Vec<u8>,
        /// The devices.
        devices: Vec<DeviceRecord>,
    },
    /// To `MoreSlots`. Descriptors: their sockets, in order.
    Slots {
        /// The new slots.
        slots: Vec<u8>,
    },
    /// To `Manage`.
    Managing {
        /// The client's number.
        number: u16,
        /// The devices.
        devices: Vec<DeviceRecord>,
    },
    /// To `Bind` and `Listen`: done.
    Bound {
        /// The client's identifier for the port.
        token: u64,
        /// The port.
        port: u16,
    },
    /// To `Bind` and `Listen`: refused.
    NotBound {
        /// The client's identifier for the port.
        token: u64,
        /// The reason.
        refusal: BindRefusal,
    },
    /// To `Introduce`: done. Descriptors: the peer's export and wake.
    Introduced {
        /// The slot that was asked for.
        slot: u8,
        /// All slots of the peer.
        slots: Vec<u8>,
        /// The peer's process as the hub sees it; 0 if it cannot.
        pid: u32,
    },
    /// To `Introduce`: refused.
    NotIntroduced {
        /// The slot that was asked for.
        slot: u8,
        /// The reason.
        refusal: IntroductionRefusal,
    },
    /// To `Status`.
    Status(Box<HubStatus>),
    /// To `Devices`.
    Devices {
        /// All of them.
        devices: Vec<DeviceRecord>,
    },
    /// To `Release`, `Ping`, `KeepUp` and `Shutdown`: done.
    Done,
    /// To any request.
    Error {
        /// The kind of error.
        code: ErrorCode,
        /// For people.
        reason: String,
    },
    /// Without a request: the devices changed.
    DevicesChanged {
        /// All of them.
        devices: Vec<DeviceRecord>,
    },
    /// Without a request: a peer wants to share memory. Descriptors: the link, this client's end of a
    /// socket pair, the peer's export and wake.
    Introduction {
        /// The peer's first slot.
        slot: u8,
        /// All slots of the peer.
        slots: Vec<u8>,
        /// The peer's process as the hub sees it; 0 if it cannot.
        pid: u32,
    },
    /// Without a request: the hub was told to exit. Clients need not start another one.
    Leaving,
    /// The reply is too long for a message: the first descriptor is a memfd with it.
    InFile,
}

/// The kind of an error, for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The message is not one of the protocol. The connection ends.
    Malformed,
    /// The message is not allowed now. The connection ends.
    OutOfOrder,
    /// The client is another user's. The connection ends.
    WrongUser,
    /// Too many connections. The connection ends.
    TooManyConnections,
    /// No slot, or no number of a managing client, is free.
    NoSlot,
    /// The slot is not the client's.
    NotYours,
    /// Clients are attached.
    InUse,
    /// The hub could not get UDP port 4791. The hub ends.
    NoPort,
    /// The system refused something.
    System,
}

/// The reason why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not a message of the protocol.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The file of a long reply cannot be read.
    #[error("the file of a long reply {0}")]
    File(&'static str),
}

impl HubRequest {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is not a message of the protocol.
    pub fn decode(bytes: &[u8]) -> Result<HubRequest, MessageError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl Reply {
    /// An error reply.
    pub fn error(code: ErrorCode, reason: impl ToString) -> Reply {
        Reply::Error { code, reason: reason.to_string() }
    }

    /// The message's bytes. A long reply is in the file, which must be sent as the first descriptor.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn encode(&self) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let bytes = encode(self);
        if bytes.len() <= MAX_MESSAGE_BYTES {
            return Ok((bytes, None));
        }
        Ok((encode(&Reply::InFile), Some(long::file(&bytes)?)))
    }

    /// Reads a message, taking its file, if there is one, out of `descriptors`.
    ///
    /// # Errors
    /// If it is not a message of the protocol.
    pub fn decode(bytes: &[u8], descriptors: &mut Vec<OwnedFd>) -> Result<Reply, MessageError> {
        let reply = serde_json::from_slice(bytes)?;
        if reply != Reply::InFile {
            return Ok(reply);
        }
        if descriptors.is_empty() {
            return Err(MessageError::File("is missing"));
        }
        let file = descriptors.remove(0);
        match serde_json::from_slice(&long::content(file.as_fd())?)? {
            Reply::InFile => Err(MessageError::File("refers to another file")),
            reply => Ok(reply),
        }
    }
}

fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have string keys and no failing serializer")
}

/// A program's name, made printable and cut to [`MAX_PROGRAM_CHARS`].
pub fn clean_program(name: &str) -> String {
    let printable = name.chars().map(|c| if c.is_control() { '?' } else { c });
    printable.take(MAX_PROGRAM_CHARS).collect()
}

#[cfg(test)]
mod tests;
