//! The protocol between the hub and its clients: one JSON object per message.
//!
//! A client begins with [`Request::Hello`]; the hub answers every request with one
//! [`Reply`], and sends an attached or managing client [`Reply::DevicesChanged`] and
//! [`Reply::Leaving`] unasked, and an attached one [`Reply::Introduction`]. Descriptors travel beside a message; which ones is said at each.
//!
//! Messages about management datagrams are binary (see `mad`) and not answered; nor is
//! [`Request::Unbind`].
//!
//! A message has at most 64 KiB. A reply that would be longer travels as the content of a
//! sealed memfd, announced by [`Reply::InFile`].
//!
//! What this module does not do: it judges no message, it only gives it a type.

use crate::record::DeviceRecord;
use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

mod introductions;
mod long;
mod ports;

pub use crate::channel::MAX_MESSAGE_BYTES;
pub use introductions::IntroductionRefusal;
pub use ports::{BindRefusal, BindSpec};

/// The protocol's version. Both ends must speak the same.
pub const VERSION: u32 = 3;

/// Longest name of a program that is kept.
pub const MAX_PROGRAM_CHARS: usize = 64;

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Must come first.
    Hello {
        /// The version that the client speaks.
        version: u32,
        /// The client's idea of its process number, used where the kernel's is not visible.
        pid: u32,
        /// The program's name.
        program: String,
    },
    /// A slot, please. Descriptors: the counter page, if `counters`; the export and the wake of
    /// its shm offer, if `shm`.
    Attach {
        /// The slot that the client would like best.
        slot: Option<u8>,
        /// Whether a counter page comes along.
        counters: bool,
        /// Whether an shm offer comes along.
        #[serde(rename = "local")]
        shm: bool,
    },
    /// The client was attached to a hub that died. Descriptors: the keeper; the socket of each
    /// slot, in order; then as with `Attach`.
    Reattach {
        /// The slots that the client has.
        slots: Vec<u8>,
        /// Whether a counter page comes along.
        counters: bool,
        /// Whether an shm offer comes along.
        #[serde(rename = "local")]
        shm: bool,
    },
    /// The attached client wants to share memory with the one that has this slot. Descriptors:
    /// the link, and the other one's end of a socket pair.
    Introduce {
        /// Any slot of the other one.
        slot: u8,
    },
    /// More slots for an attached client.
    MoreSlots {
        /// How many.
        count: u8,
    },
    /// The attached client gives one of its slots back.
    Release {
        /// Which.
        slot: u8,
    },
    /// The client manages connections: it gets the MADs for its number and its ports.
    Manage {
        /// The number that it had under a hub that died.
        number: Option<u16>,
    },
    /// A managing client wants a port.
    Bind {
        /// The client's name for it.
        token: u64,
        /// What it wants.
        #[serde(rename = "wish")]
        spec: BindSpec,
        /// Whether to listen at once.
        listening: bool,
        /// Whether it had it under a hub that died: the address need not exist any more.
        again: bool,
    },
    /// Requests for connections to this port are for the client.
    Listen {
        /// The port.
        token: u64,
    },
    /// The client gives a port back. Not answered.
    Unbind {
        /// Which.
        token: u64,
    },
    /// How is everything?
    Status,
    /// Which devices are there?
    Devices,
    /// Are you there?
    Ping,
    /// Changes after how long without clients the hub leaves.
    KeepUp {
        /// The time; for ever without it.
        idle_timeout_ms: Option<u64>,
    },
    /// Leave.
    Shutdown {
        /// Even if clients are attached. Their connections survive.
        force: bool,
    },
}

/// What the hub says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`. If the versions differ the connection ends.
    Welcome {
        /// The version that the hub speaks.
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
        /// The port's name.
        token: u64,
        /// The port.
        port: u16,
    },
    /// To `Bind` and `Listen`: not to be had.
    NotBound {
        /// The port's name.
        token: u64,
        /// Why.
        refusal: BindRefusal,
    },
    /// To `Introduce`: done. Descriptors: the other one's export and wake.
    Introduced {
        /// The slot that was asked for.
        slot: u8,
        /// All slots that the other one has now.
        slots: Vec<u8>,
        /// The other one's process as the hub sees it; 0 if it is out of sight.
        pid: u32,
    },
    /// To `Introduce`: it was not done.
    NotIntroduced {
        /// The slot that was asked for.
        slot: u8,
        /// Why.
        refusal: IntroductionRefusal,
    },
    /// To `Status`.
    Status(Box<Status>),
    /// To `Devices`.
    Devices {
        /// All of them.
        devices: Vec<DeviceRecord>,
    },
    /// To `Release`, `Ping`, `KeepUp` and `Shutdown`: done.
    Done,
    /// To anything.
    Error {
        /// What kind of error.
        code: ErrorCode,
        /// For people.
        reason: String,
    },
    /// Unasked: the devices changed.
    DevicesChanged {
        /// All of them.
        devices: Vec<DeviceRecord>,
    },
    /// Unasked: somebody else wants to share memory. Descriptors: the link, this one's end of a
    /// socket pair, the other one's export and wake.
    Introduction {
        /// The other one's first slot.
        slot: u8,
        /// All slots that the other one has now.
        slots: Vec<u8>,
        /// The other one's process as the hub sees it; 0 if it is out of sight.
        pid: u32,
    },
    /// Unasked: the hub was told to leave. Clients need not start another one.
    Leaving,
    /// The reply is too long: it is the content of the memfd that is the first descriptor.
    InFile,
}

/// Kinds of errors that a client may want to tell apart.
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

/// A reply that does not make sense.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no message of the protocol.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The file of a long reply cannot be read.
    #[error("the file of a long reply {0}")]
    File(&'static str),
}

impl Request {
    /// The message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is none of the protocol.
    pub fn decode(bytes: &[u8]) -> Result<Request, DecodeError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl Reply {
    /// An error reply.
    pub fn error(code: ErrorCode, reason: impl ToString) -> Reply {
        Reply::Error { code, reason: reason.to_string() }
    }

    /// The message's bytes, and the file that must go along as its first descriptor if the
    /// reply is a long one.
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
    /// If it is none of the protocol.
    pub fn decode(bytes: &[u8], descriptors: &mut Vec<OwnedFd>) -> Result<Reply, DecodeError> {
        let reply = serde_json::from_slice(bytes)?;
        if reply != Reply::InFile {
            return Ok(reply);
        }
        if descriptors.is_empty() {
            return Err(DecodeError::File("is missing"));
        }
        let file = descriptors.remove(0);
        match serde_json::from_slice(&long::content(file.as_fd())?)? {
            Reply::InFile => Err(DecodeError::File("leads to another file")),
            reply => Ok(reply),
        }
    }
}

fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have string keys and no failing serializer")
}

/// A program's name as it may be kept and shown: printable and not too long.
pub fn clean_program(name: &str) -> String {
    let printable = name.chars().map(|c| if c.is_control() { '?' } else { c });
    printable.take(MAX_PROGRAM_CHARS).collect()
}

#[cfg(test)]
mod tests;
