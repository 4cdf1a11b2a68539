//! Settings of clients and servers.

use std::time::Duration;

#[cfg(feature = "tls")]
use crate::auth::ClientTls;
#[cfg(feature = "shared-key")]
use crate::auth::SharedSecret;
use crate::handshake::SessionSizes;
use crate::tuning::VerbsTuning;
use crate::way::Way;

/// Settings of a client.
///
/// ```
/// use longarm_rpc::{ClientOptions, Way};
///
/// let options = ClientOptions { way: Some(Way::Ring), ..ClientOptions::default() };
/// ```
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The way to use; if there is none, server and client choose.
    pub way: Option<Way>,
    /// Calls at a time: 1 to 64.
    pub slots: u16,
    /// Memory for each call in the ways that have slots: 128 to 65,536 bytes. Longer messages are READ.
    pub slot_bytes: u32,
    /// Length of each ring: 4 KiB to 16 MiB. Messages longer than a quarter are READ.
    pub ring_bytes: u32,
    /// The longest message with its metadata, in bytes.
    pub max_message_bytes: u32,
    /// The length of the messages that the client expects, in bytes: a hint for the choice of a way.
    pub typical_bytes: u32,
    /// The time that connecting may take.
    pub connect_timeout: Duration,
    /// Settings of the verbs.
    pub tuning: VerbsTuning,
    /// The client demands TLS: a server without a certificate that it trusts gets no session.
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
    /// The client demands that the server has this secret, too. Not together with [`tls`](ClientOptions::tls).
    #[cfg(feature = "shared-key")]
    pub shared_key: Option<SharedSecret>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            way: None,
            slots: 32,
            slot_bytes: 512,
            ring_bytes: 64 << 10,
            max_message_bytes: (8 << 20) + 8192,
            typical_bytes: 64,
            connect_timeout: Duration::from_secs(5),
            tuning: VerbsTuning::default(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "shared-key")]
            shared_key: None,
        }
    }
}

impl ClientOptions {
    pub(crate) fn sizes(&self, datagram_bytes: u32) -> SessionSizes {
        let sizes = SessionSizes {
            datagram_bytes,
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            ring_bytes: self.ring_bytes,
            max_message_bytes: self.max_message_bytes,
        };
        sizes.meet(&sizes)
    }
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Polling threads. Each client belongs to one of them.
    pub threads: usize,
    /// Threads for handlers that block, and for asynchronous ones if there is no other executor.
    pub pool_threads: usize,
    /// The ways that clients may use.
    pub ways: Vec<Way>,
    /// Calls at a time for each client.
    pub slots: u16,
    /// Memory for each call in the ways that have slots, in bytes.
    pub slot_bytes: u32,
    /// Length of each ring, in bytes.
    pub ring_bytes: u32,
    /// The longest message with its metadata, in bytes.
    pub max_message_bytes: u32,
    /// Sessions at a time for each polling thread.
    pub max_sessions: usize,
    /// The time for which a polling thread spins after the last request before it sleeps or naps.
    pub spin: Duration,
    /// Settings of the verbs.
    pub tuning: VerbsTuning,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            threads: 1,
            pool_threads: 4,
            ways: Way::ALL.to_vec(),
            slots: 32,
            slot_bytes: 512,
            ring_bytes: 64 << 10,
            max_message_bytes: (8 << 20) + 8192,
            max_sessions: 4096,
            spin: Duration::from_millis(2),
            tuning: VerbsTuning::default(),
        }
    }
}

impl ServerOptions {
    pub(crate) fn sizes(&self, datagram_bytes: u32) -> SessionSizes {
        let sizes = SessionSizes {
            datagram_bytes,
            slots: self.slots,
            slot_bytes: self.slot_bytes,
            ring_bytes: self.ring_bytes,
            max_message_bytes: self.max_message_bytes,
        };
        sizes.meet(&sizes)
    }
}
