//! Proofs of identity before a session begins. docs/rpc-security.md says what they protect.
//!
//! ```text
//!  client                                            server
//!   Tls or KeyNonce …  ──►      ◄──  Tls or KeyNonce …
//!   ┌ sealed by the shield of that proof ┐
//!   │ Hello  ──►   ◄──  Welcome   Ready  ──► │
//!   └────────────────────────────────────┘
//! ```

mod demands;
#[cfg(feature = "shared-key")]
mod key;
mod peer;
#[cfg(feature = "shared-key")]
mod secret;
mod shield;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use demands::ServerDemands;
#[cfg(feature = "shared-key")]
pub(crate) use key::KeyShield;
pub use peer::AuthenticatedPeer;
#[cfg(feature = "shared-key")]
pub use secret::SharedSecret;
pub(crate) use shield::{Shield, Unproven};
#[cfg(feature = "tls")]
pub use tls::ClientTls;
#[cfg(feature = "tls")]
pub(crate) use tls::TlsShield;
