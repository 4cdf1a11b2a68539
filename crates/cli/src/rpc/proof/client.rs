//! The client's side.

use std::sync::Arc;

use clap::Args;
use longarm_rpc::{ClientOptions, ClientTls};
use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::ServerName;

use super::{ProofFiles, pem};
use crate::error::Error;

/// The proof that the client gives and demands.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClientProof {
    #[command(flatten)]
    pub(crate) files: ProofFiles,
    /// Name or IP address that the server's certificate must have [default: HOST]
    #[arg(long, value_name = "NAME", requires = "tls_ca", help_heading = "Proofs")]
    tls_name: Option<String>,
}

impl ClientProof {
    /// Adds the proofs to the options of a client of this server (`HOST:PORT`).
    ///
    /// # Errors
    /// If a file cannot be read, or the options contradict each other.
    pub(crate) fn add_to(&self, options: &mut ClientOptions, server: &str) -> Result<(), Error> {
        options.shared_key = self.files.secret()?;
        if !self.files.has_tls() {
            return Ok(());
        }
        if options.shared_key.is_some() {
            return Err(Error::Usage("a client gives one proof: TLS or --shared-key".into()));
        }
        options.tls = Some(ClientTls { config: Arc::new(self.config()?), server_name: self.server_name(server)? });
        Ok(())
    }

    fn config(&self) -> Result<ClientConfig, Error> {
        let Some(authorities) = &self.files.tls_ca else {
            return Err(Error::Usage(
                "--tls-cert: a client also needs --tls-ca, the authorities that it trusts".into(),
            ));
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Usage(error.to_string()))?
            .with_root_certificates(pem::authorities(authorities)?);
        match self.files.identity()? {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|why| self.files.misfit(&why)),
        }
    }

    fn server_name(&self, server: &str) -> Result<ServerName<'static>, Error> {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let name = self.tls_name.as_deref().unwrap_or_else(|| host.trim_matches(['[', ']']));
        let refused = |_| Error::Usage(format!("{name:?} is no name of a server: give another by --tls-name"));
        ServerName::try_from(name.to_owned()).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_host_unless_another_is_given() {
        let name = |server: &str, given: Option<&str>| {
            let proof = ClientProof { tls_name: given.map(String::from), ..ClientProof::default() };
            proof.server_name(server).map(|name| name.to_str().into_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(name("server.test:7471", None).unwrap(), "server.test");
        assert_eq!(name("127.0.0.1:7471", None).unwrap(), "127.0.0.1");
        assert_eq!(name("[fd00::1]:7471", None).unwrap(), "fd00::1");
        assert_eq!(name("127.0.0.1:7471", Some("other.test")).unwrap(), "other.test");
        assert!(name("no name:7471", None).unwrap_err().contains("--tls-name"));
    }
}
