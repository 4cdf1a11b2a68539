//! The proofs that a server accepts.

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "shared-key")]
use crate::auth::SharedSecret;
#[cfg(feature = "shared-key")]
use crate::auth::key::KeyShield;
use crate::auth::shield::{Shield, Unproven};
#[cfg(feature = "tls")]
use crate::auth::tls::TlsShield;
use crate::handshake::SessionMessage;

/// The proofs that a server accepts; if there is one, it accepts no client without a proof.
#[derive(Clone, Default)]
pub(crate) struct ServerDemands {
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    #[cfg(feature = "shared-key")]
    pub(crate) key: Option<SharedSecret>,
}

impl ServerDemands {
    fn is_none(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        #[cfg(feature = "shared-key")]
        if self.key.is_some() {
            return false;
        }
        true
    }

    /// The shield that a client's first message asks for.
    ///
    /// # Errors
    /// If it is not among those that the server demands.
    pub(crate) fn shield(&self, first: &SessionMessage) -> Result<Shield, Unproven> {
        match first {
            SessionMessage::Tls(_) => self.tls_shield(),
            SessionMessage::KeyNonce(_) => self.key_shield(),
            _ if self.is_none() => Ok(Shield::Plain),
            _ => Err(Unproven::new("the server demands that clients prove who they are")),
        }
    }

    fn tls_shield(&self) -> Result<Shield, Unproven> {
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            return Ok(Shield::Tls(Box::new(TlsShield::server(config)?)));
        }
        Err(Unproven::new("the server is not set up for TLS"))
    }

    fn key_shield(&self) -> Result<Shield, Unproven> {
        #[cfg(feature = "shared-key")]
        if let Some(key) = &self.key {
            return Ok(Shield::Key(Box::new(KeyShield::server(key)?)));
        }
        Err(Unproven::new("the server is not set up for a shared key"))
    }
}
