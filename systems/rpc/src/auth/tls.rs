//! Proof by certificates: TLS 1.3, whose records are messages of the handshake.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ProtocolVersion, ServerConfig, ServerConnection};

use crate::auth::AuthenticatedPeer;
use crate::auth::shield::{Unproven, Unsealed};
use crate::handshake::{RECORD_BYTES, SessionMessage};

/// The protocol that both ends must name (ALPN, RFC 7301): a certificate of a web server gives no right to serve calls.
const PROTOCOL: &[u8] = b"longarm-rpc/1";
/// Bytes that one end may send in a handshake: many times a long chain of certificates.
const MAX_BYTES: usize = 128 << 10;
/// The longest message inside TLS.
const MAX_INNER_BYTES: usize = 4096;

/// Settings of a client that demands TLS.
#[derive(Clone, Debug)]
pub struct ClientTls {
    /// The authorities that the client trusts, and its certificate if it has one.
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub server_name: ServerName<'static>,
}

/// One end of a TLS connection inside the handshake.
pub(crate) struct TlsShield {
    tls: Connection,
    received_bytes: usize,
    /// Plain bytes of a message that is not complete.
    plain: Vec<u8>,
}

impl TlsShield {
    /// The client's end, and its first messages.
    pub(crate) fn client(settings: &ClientTls) -> Result<(TlsShield, Vec<SessionMessage>), Unproven> {
        let mut config = (*settings.config).clone();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.enable_early_data = false;
        let tls = ClientConnection::new(Arc::new(config), settings.server_name.clone()).map_err(failed)?;
        let mut shield = TlsShield { tls: tls.into(), received_bytes: 0, plain: Vec::new() };
        let first = shield.take_records();
        Ok((shield, first))
    }

    pub(crate) fn server(config: &Arc<ServerConfig>) -> Result<TlsShield, Unproven> {
        let mut config = (**config).clone();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.max_early_data_size = 0;
        let tls = ServerConnection::new(Arc::new(config)).map_err(failed)?;
        Ok(TlsShield { tls: tls.into(), received_bytes: 0, plain: Vec::new() })
    }

    /// True when the handshake of TLS is done: the peer has shown what this end demands.
    pub(super) fn is_ready(&self) -> bool {
        !self.tls.is_handshaking()
    }

    pub(super) fn seal(&mut self, message: &[u8]) -> Result<Vec<SessionMessage>, Unproven> {
        let mut writer = self.tls.writer();
        let len_bytes = (message.len() as u16).to_le_bytes();
        writer.write_all(&len_bytes).and_then(|()| writer.write_all(message)).map_err(failed)?;
        Ok(self.take_records())
    }

    pub(super) fn open(&mut self, mut bytes: &[u8]) -> Result<Unsealed, Unproven> {
        self.received_bytes += bytes.len();
        if self.received_bytes > MAX_BYTES {
            return Err(Unproven::new("the peer sends too much for a handshake"));
        }
        while !bytes.is_empty() {
            let read = self.tls.read_tls(&mut bytes).map_err(failed)?;
            let state = self.tls.process_new_packets().map_err(failed)?;
            let at = self.plain.len();
            self.plain.resize(at + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut self.plain[at..]).map_err(failed)?;
            if read == 0 || state.peer_has_closed() {
                return Err(Unproven::new("the peer has closed its TLS connection"));
            }
        }
        self.check_parameters()?;
        let messages = self.complete_messages()?;
        Ok(Unsealed { answers: self.take_records(), messages })
    }

    /// Refuses older versions of TLS and other protocols, which a configuration might allow.
    fn check_parameters(&self) -> Result<(), Unproven> {
        if !self.is_ready() {
            return Ok(());
        }
        if self.tls.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Err(Unproven::new("the peer does not speak TLS 1.3"));
        }
        if self.tls.alpn_protocol() != Some(PROTOCOL) {
            return Err(Unproven::new("the peer's TLS connection is not for calls"));
        }
        Ok(())
    }

    fn complete_messages(&mut self) -> Result<Vec<SessionMessage>, Unproven> {
        let mut messages = Vec::new();
        while let Some((len_bytes, rest)) = self.plain.split_first_chunk() {
            let len_bytes = usize::from(u16::from_le_bytes(*len_bytes));
            if len_bytes > MAX_INNER_BYTES {
                return Err(malformed());
            }
            let Some(message) = rest.get(..len_bytes) else {
                break;
            };
            messages.push(SessionMessage::decode(message).ok_or_else(malformed)?);
            self.plain.drain(..2 + len_bytes);
        }
        Ok(messages)
    }

    /// The records that TLS wants to send, in messages.
    pub(super) fn take_records(&mut self) -> Vec<SessionMessage> {
        let mut bytes = Vec::new();
        while self.tls.wants_write() && self.tls.write_tls(&mut bytes).is_ok() {}
        bytes.chunks(RECORD_BYTES).map(|chunk| SessionMessage::Tls(chunk.to_vec())).collect()
    }

    /// The peer, if it has shown a certificate that the configuration accepts.
    pub(super) fn peer(&self) -> Option<AuthenticatedPeer> {
        if !self.is_ready() {
            return None;
        }
        let certificate = self.tls.peer_certificates()?.first()?;
        Some(AuthenticatedPeer::with_certificate(certificate, names(certificate)))
    }
}

/// The DNS names and URIs of a certificate.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
        return Vec::new();
    };
    certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(str::to_owned).collect()
}

fn failed(why: impl ToString) -> Unproven {
    Unproven(format!("TLS: {}", why.to_string()))
}

fn malformed() -> Unproven {
    Unproven::new("a sealed message is malformed")
}
