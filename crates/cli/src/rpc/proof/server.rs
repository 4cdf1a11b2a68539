//! The server's side.

use std::sync::Arc;

use longarm_rpc::ServerBuilder;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;

use super::{ProofFiles, pem};
use crate::error::Error;

impl ProofFiles {
    /// Lets a server demand the proofs of these files. With authorities, it demands certificates of its clients.
    ///
    /// # Errors
    /// If a file cannot be read or does not fit.
    pub(crate) fn demand(&self, mut builder: ServerBuilder) -> Result<ServerBuilder, Error> {
        if let Some(secret) = self.secret()? {
            builder = builder.shared_key(secret);
        }
        if self.has_tls() {
            builder = builder.tls(Arc::new(self.server_config()?));
        }
        Ok(builder)
    }

    fn server_config(&self) -> Result<ServerConfig, Error> {
        let Some((chain, key)) = self.identity()? else {
            return Err(Error::Usage("--tls-ca: a server also needs --tls-cert, a certificate of its own".into()));
        };
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Usage(error.to_string()))?;
        let builder = match &self.tls_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(pem::authorities(file)?, provider).build();
                let verifier = verifier.map_err(|error| Error::Usage(format!("{}: {error}", file.display())))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        builder.with_single_cert(chain, key).map_err(|why| self.misfit(&why))
    }
}
