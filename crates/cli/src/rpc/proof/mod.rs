//! Proofs of identity that the options of `longarm rpc` ask for. docs/rpc-security.md says what they protect.

mod client;
mod pem;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use longarm_rpc::SharedSecret;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

pub(crate) use client::ClientProof;

/// Files with which this end proves who it is, and the authorities that it trusts.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ProofFiles {
    /// PEM file of the authorities that must have signed the peer's certificate
    #[arg(long, value_name = "FILE", help_heading = "Proofs")]
    tls_ca: Option<PathBuf>,
    /// PEM file of this end's certificate, with those between it and the authority
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Proofs")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Proofs")]
    tls_key: Option<PathBuf>,
    /// File of a secret that both ends have: 16 random bytes or more. A line break at its end does not count
    #[arg(long, value_name = "FILE", help_heading = "Proofs")]
    shared_key: Option<PathBuf>,
}

/// A certificate with those between it and the authority, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl ProofFiles {
    /// These options, for another process.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let options = [
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--shared-key", &self.shared_key),
        ];
        let given = options.into_iter().filter_map(|(name, file)| file.as_ref().map(|file| (name, file)));
        given.flat_map(|(name, file)| [name.into(), file.into()]).collect()
    }

    fn has_tls(&self) -> bool {
        self.tls_ca.is_some() || self.tls_cert.is_some()
    }

    fn identity(&self) -> Result<Option<Identity>, Error> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        Ok(Some((pem::certificates(certificate)?, pem::key(key)?)))
    }

    /// A certificate that does not fit its key, or that TLS cannot use.
    fn misfit(&self, why: &rustls::Error) -> Error {
        let name = |file: &Option<PathBuf>| file.as_deref().unwrap_or(Path::new("")).display().to_string();
        let (certificate, key) = (name(&self.tls_cert), name(&self.tls_key));
        Error::Usage(format!("TLS takes neither the certificate {certificate} nor its key {key}: {why}"))
    }

    fn secret(&self) -> Result<Option<SharedSecret>, Error> {
        let Some(file) = &self.shared_key else {
            return Ok(None);
        };
        let bytes = pem::read(file)?;
        let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let secret = SharedSecret::new(secret.strip_suffix(b"\r").unwrap_or(secret));
        secret.map(Some).map_err(|status| Error::Usage(format!("{}: {}", file.display(), status.message())))
    }
}
