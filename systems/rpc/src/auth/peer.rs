//! The client that a server has authenticated.

/// A client that has proved who it is, by a certificate or by the shared key.
///
/// Handlers get it from [`Request::peer`](crate::Request::peer).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticatedPeer {
    names: Vec<String>,
    certificate: Option<Vec<u8>>,
}

impl AuthenticatedPeer {
    #[cfg(feature = "tls")]
    pub(super) fn with_certificate(certificate: &[u8], names: Vec<String>) -> AuthenticatedPeer {
        AuthenticatedPeer { names, certificate: Some(certificate.to_vec()) }
    }

    /// The DNS names and URIs in its certificate's extension "subject alternative name" (RFC 5280, section 4.2.1.6).
    /// The certificate's issuer vouches for them. Empty if the proof is the shared key.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its certificate in DER, which the server's configuration has verified. `None` if the proof is the shared key.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.certificate.as_deref()
    }
}
