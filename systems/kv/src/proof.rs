//! The secrets of tables, proved as [`remote::ProofSecret`] says.

use std::fmt;

use remote::{ProofBytes, ProofEnd, ProofSecret, ShortSecret};

pub(crate) type Nonce = ProofBytes;

const PURPOSE: &str = "longarm-kv 1";

/// The secret of a table. It must be drawn at random: someone who sees a proof can try passwords at leisure.
#[derive(Clone)]
pub struct TableSecret(ProofSecret);

impl TableSecret {
    /// The shortest secret, in bytes: 128 bits.
    pub const SHORTEST: usize = ProofSecret::SHORTEST;

    /// A secret of these bytes.
    ///
    /// # Errors
    /// If they are fewer than 16.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<TableSecret, ShortSecret> {
        ProofSecret::new(secret).map(TableSecret)
    }

    /// The proof of a client.
    pub(crate) fn client_proof(&self, table: &str, server: &Nonce, client: &Nonce) -> Nonce {
        self.0.proof(PURPOSE, ProofEnd::Client, table, (server, client))
    }

    /// The proof of a server.
    pub(crate) fn server_proof(&self, table: &str, server: &Nonce, client: &Nonce) -> Nonce {
        self.0.proof(PURPOSE, ProofEnd::Server, table, (server, client))
    }

    /// True if this is the client's proof; in a time that does not depend on the bytes.
    pub(crate) fn is_client_proof(&self, table: &str, nonces: (&Nonce, &Nonce), proof: &[u8]) -> bool {
        self.0.is_proof(PURPOSE, ProofEnd::Client, table, nonces, proof)
    }

    /// True if this is the server's proof.
    pub(crate) fn is_server_proof(&self, table: &str, nonces: (&Nonce, &Nonce), proof: &[u8]) -> bool {
        self.0.is_proof(PURPOSE, ProofEnd::Server, table, nonces, proof)
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
