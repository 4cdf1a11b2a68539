//! The protocol, without input and output: the messages on the wire, and the permission to send them.
//!
//! ```text
//!  message    the 32 bits of immediate data that come with every WRITE
//!  buffer     names of a peer's buffer: in lists that peers write, and at the start
//!  greeting   the private data of connection requests and replies
//!  incoming   our receive buffer: bytes to read, room that the peer may fill, its credits
//!  outgoing   the peer's buffers and our credits; slots of the send queue
//!  ring       where bytes to be sent wait until they were
//!  datagram   the headers of datagram sockets
//! ```
//!
//! The sources of all formats: `docs/rsocket` and `rsocket.c` of rdma-core's librdmacm, version 1.

pub(crate) mod buffer;
pub(crate) mod datagram;
pub(crate) mod greeting;
pub(crate) mod incoming;
pub(crate) mod message;
pub(crate) mod outgoing;
pub(crate) mod ring;

/// The peer broke the protocol: the connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ProtocolViolation {
    /// More bytes than it was given room for.
    #[error("the peer says it wrote {announced} bytes where it had room for {room}")]
    NoRoom {
        /// Bytes said to be written.
        announced: u32,
        /// Bytes of the buffers it had.
        room: u32,
    },
    /// More messages than it had credits for.
    #[error("the peer sent more messages than it had credits for")]
    NoCredit,
}
