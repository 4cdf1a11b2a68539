//! An authority and its certificates, made for a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority that signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Default for Authority {
    fn default() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random numbers");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }
}

impl Authority {
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("random numbers");
        let params = CertificateParams::new(vec![name.into()]).expect("a name");
        (params.signed_by(&key, &self.0).expect("a certificate"), key)
    }

    fn identity(&self, name: &str) -> Identity {
        let (certificate, key) = self.sign(name);
        (vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a certificate");
        Arc::new(roots)
    }

    /// Writes its own certificate in PEM form.
    pub fn write(&self, file: &Path) {
        std::fs::write(file, self.0.pem()).expect("the file of the authority");
    }

    /// Writes a new certificate for this name (or address) and its key in PEM form. Returns both files.
    pub fn write_identity(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.sign(name);
        let (certificate_file, key_file) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        std::fs::write(&certificate_file, certificate.pem()).expect("the file of the certificate");
        std::fs::write(&key_file, key.serialize_pem()).expect("the file of the key");
        (certificate_file, key_file)
    }

    /// Settings of a server `server.test`, which demands certificates of this authority.
    pub fn server(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(self.roots(), Arc::clone(&provider)).build();
        let (chain, key) = self.identity("server.test");
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_client_cert_verifier(clients.expect("an authority"));
        Arc::new(config.with_single_cert(chain, key).expect("a certificate and its key"))
    }

    /// Settings of a client that trusts `servers`, with a certificate of this authority if it has a name.
    pub fn client(&self, name: Option<&str>, servers: &Authority) -> Arc<ClientConfig> {
        let config =
            ClientConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(servers.roots());
        Arc::new(match name.map(|name| self.identity(name)) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).expect("a certificate and its key"),
            None => config.with_no_client_auth(),
        })
    }
}
