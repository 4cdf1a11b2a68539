//! Protection of the messages of a handshake.

use std::sync::Arc;

use crate::auth::AuthenticatedPeer;
#[cfg(feature = "shared-key")]
use crate::auth::key::KeyShield;
#[cfg(feature = "tls")]
use crate::auth::tls::TlsShield;
use crate::code::{Code, Executed};
use crate::handshake::SessionMessage;
use crate::status::Status;

/// The peer has not proved who it is; in words, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unproven(pub(crate) String);

impl Unproven {
    pub(crate) fn new(why: impl Into<String>) -> Unproven {
        Unproven(why.into())
    }

    pub(crate) fn into_status(self) -> Status {
        Status::new(Code::Unauthenticated, self.0).with_executed(Executed::No)
    }
}

/// A message of the peer without its protection.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    /// To be sent to the peer at once, as they are.
    pub(crate) answers: Vec<SessionMessage>,
    /// Messages that the peer has sealed, in order.
    pub(crate) messages: Vec<SessionMessage>,
}

/// The protection of the messages between two ends that make a session.
pub(crate) enum Shield {
    /// None: neither end demands a proof.
    Plain,
    #[cfg(feature = "tls")]
    Tls(Box<TlsShield>),
    #[cfg(feature = "shared-key")]
    Key(Box<KeyShield>),
}

impl Shield {
    /// True if messages can be sealed. Those that arrive sealed prove the peer.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Shield::Plain => true,
            #[cfg(feature = "tls")]
            Shield::Tls(tls) => tls.is_ready(),
            #[cfg(feature = "shared-key")]
            Shield::Key(key) => key.is_ready(),
        }
    }

    /// Protects a message; returns the messages to send.
    ///
    /// # Errors
    /// If the peer has not proved yet who it is, or the protection fails.
    pub(crate) fn seal(&mut self, message: &SessionMessage) -> Result<Vec<SessionMessage>, Unproven> {
        match self {
            Shield::Plain => Ok(vec![message.clone()]),
            #[cfg(any(feature = "tls", feature = "shared-key"))]
            _ if !self.is_ready() => Err(Unproven::new("the peer has not proved who it is")),
            #[cfg(feature = "tls")]
            Shield::Tls(tls) => tls.seal(&message.encode()),
            #[cfg(feature = "shared-key")]
            Shield::Key(key) => key.seal(message.encode()),
        }
    }

    /// Takes a message of the peer.
    ///
    /// # Errors
    /// If it is not protected as this shield demands, or is forged.
    pub(crate) fn open(&mut self, message: SessionMessage) -> Result<Unsealed, Unproven> {
        match (self, message) {
            #[cfg(feature = "tls")]
            (Shield::Tls(tls), SessionMessage::Tls(bytes)) => tls.open(&bytes),
            #[cfg(feature = "shared-key")]
            (Shield::Key(key), SessionMessage::KeyNonce(nonce)) => key.on_nonce(nonce),
            #[cfg(feature = "shared-key")]
            (Shield::Key(key), SessionMessage::Proven { tag, message }) => key.open(&tag, &message),
            (Shield::Plain, SessionMessage::Tls(_) | SessionMessage::KeyNonce(_) | SessionMessage::Proven { .. }) => {
                Err(Unproven::new("the peer wants a proof that this end is not set up for"))
            }
            (Shield::Plain, message) => Ok(Unsealed { answers: Vec::new(), messages: vec![message] }),
            #[cfg(any(feature = "tls", feature = "shared-key"))]
            (_, SessionMessage::Refused { words, .. }) => {
                Err(Unproven(format!("an end that has not proved who it is refuses: {words}")))
            }
            #[cfg(any(feature = "tls", feature = "shared-key"))]
            _ => Err(Unproven::new("the peer does not give the proof that this end demands")),
        }
    }

    /// Bytes that still have to be sent after an error: the alert that tells the peer the reason.
    pub(crate) fn last_words(&mut self) -> Vec<SessionMessage> {
        match self {
            #[cfg(feature = "tls")]
            Shield::Tls(tls) => tls.take_records(),
            _ => Vec::new(),
        }
    }

    /// The peer, if it has proved who it is.
    pub(crate) fn peer(&self) -> Option<Arc<AuthenticatedPeer>> {
        match self {
            Shield::Plain => None,
            #[cfg(feature = "tls")]
            Shield::Tls(tls) => tls.peer().map(Arc::new),
            #[cfg(feature = "shared-key")]
            Shield::Key(_) => Some(Arc::default()),
        }
    }
}
