//! Certificates and keys in files (PEM, RFC 7468).

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// The bytes of a file.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|error| Error::File(file.display().to_string(), error))
}

/// The certificates in a file: at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if all.is_empty() => Err(refused(file, "there is no certificate in PEM form in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(refused(file, error)),
    }
}

/// The first private key in a file.
pub(super) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            refused(file, "there is no private key in PEM form in it, or it is encrypted")
        }
        error => refused(file, error),
    })
}

/// The authorities in a file.
pub(super) fn authorities(file: &Path) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| refused(file, error))?;
    }
    Ok(Arc::new(roots))
}

fn refused(file: &Path, why: impl std::fmt::Display) -> Error {
    Error::Usage(format!("{}: {why}", file.display()))
}
