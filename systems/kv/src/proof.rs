//! The proof that a client has a table's secret, and that the server has it, too.
//!
//! Server and client draw a nonce each. Each end sends the HMAC (RFC 2104) of its name, both nonces and the table's name.
//! So a recorded proof is good for nothing, and neither end can send the other's proof back.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of nonces and proofs.
pub(crate) const NONCE_BYTES: usize = 32;

pub(crate) type Nonce = [u8; NONCE_BYTES];

const CLIENT: &[u8] = b"longarm-kv 1 client";
const SERVER: &[u8] = b"longarm-kv 1 server";

/// The secret of a table. It must be drawn at random: someone who sees a proof can try passwords at leisure.
#[derive(Clone)]
pub struct TableSecret(Arc<[u8]>);

/// A secret that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes: it needs at least {shortest}", shortest = TableSecret::SHORTEST)]
pub struct ShortSecret(pub usize);

impl TableSecret {
    /// The shortest secret, in bytes: 128 bits.
    pub const SHORTEST: usize = 16;

    /// A secret of these bytes.
    ///
    /// # Errors
    /// If they are fewer than 16.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<TableSecret, ShortSecret> {
        let secret = secret.as_ref();
        if secret.len() < TableSecret::SHORTEST {
            Err(ShortSecret(secret.len()))
        } else {
            Ok(TableSecret(secret.into()))
        }
    }

    /// The proof of a client.
    pub(crate) fn client_proof(&self, table: &str, server: &Nonce, client: &Nonce) -> [u8; NONCE_BYTES] {
        self.mac(CLIENT, table, server, client).finalize().into_bytes().into()
    }

    /// The proof of a server.
    pub(crate) fn server_proof(&self, table: &str, server: &Nonce, client: &Nonce) -> [u8; NONCE_BYTES] {
        self.mac(SERVER, table, server, client).finalize().into_bytes().into()
    }

    /// True if this is the client's proof; in a time that does not depend on the bytes.
    pub(crate) fn is_client_proof(&self, table: &str, nonces: (&Nonce, &Nonce), proof: &[u8]) -> bool {
        self.mac(CLIENT, table, nonces.0, nonces.1).verify_slice(proof).is_ok()
    }

    /// True if this is the server's proof.
    pub(crate) fn is_server_proof(&self, table: &str, nonces: (&Nonce, &Nonce), proof: &[u8]) -> bool {
        self.mac(SERVER, table, nonces.0, nonces.1).verify_slice(proof).is_ok()
    }

    fn mac(&self, end: &[u8], table: &str, server: &Nonce, client: &Nonce) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("an HMAC takes keys of any length");
        for part in [end, server, client, table.as_bytes()] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for TableSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_end_one_table_and_two_nonces() {
        let (secret, other) = (TableSecret::new([7; 16]).unwrap(), TableSecret::new([8; 16]).unwrap());
        let (server, client) = ([1; 32], [2; 32]);
        let proof = secret.client_proof("t", &server, &client);
        assert!(secret.is_client_proof("t", (&server, &client), &proof));
        assert!(!secret.is_server_proof("t", (&server, &client), &proof));
        assert!(!secret.is_client_proof("u", (&server, &client), &proof));
        assert!(!secret.is_client_proof("t", (&client, &server), &proof));
        assert!(!other.is_client_proof("t", (&server, &client), &proof));
        let answer = secret.server_proof("t", &server, &client);
        assert!(secret.is_server_proof("t", (&server, &client), &answer) && answer != proof);
        assert_eq!(TableSecret::new([0; 15]).unwrap_err(), ShortSecret(15));
    }
}
