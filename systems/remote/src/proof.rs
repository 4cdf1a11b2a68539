//! The proof that a client has a secret, and that the server has it, too.
//!
//! Server and client draw a nonce each. Each end sends the HMAC (RFC 2104) of the purpose, its end, both nonces and the name of the
//! subject. So a recorded proof is good for nothing, and neither end can send the other's proof back.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Length of nonces and proofs.
const NONCE_BYTES: usize = 32;

/// A number that one end draws, and a proof that covers two of them.
pub type ProofBytes = [u8; NONCE_BYTES];

/// The end that makes a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofEnd {
    /// The one that asks.
    Client,
    /// The one that answers.
    Server,
}

/// A secret that both ends have. It must be drawn at random: someone who sees a proof can try passwords at leisure.
#[derive(Clone)]
pub struct ProofSecret(Arc<[u8]>);

/// A secret that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes: it needs at least {shortest}", shortest = ProofSecret::SHORTEST)]
pub struct ShortSecret(pub usize);

impl ProofSecret {
    /// The shortest secret, in bytes: 128 bits.
    pub const SHORTEST: usize = 16;

    /// A secret of these bytes.
    ///
    /// # Errors
    /// If they are fewer than 16.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<ProofSecret, ShortSecret> {
        let secret = secret.as_ref();
        if secret.len() < ProofSecret::SHORTEST {
            Err(ShortSecret(secret.len()))
        } else {
            Ok(ProofSecret(secret.into()))
        }
    }

    /// Another secret that follows from this one and from a label. It tells nothing of this one.
    pub fn derive(&self, label: &str) -> ProofSecret {
        let key = self.hmac().chain_update(b"longarm derived secret 1\0").chain_update(label);
        ProofSecret(key.finalize().into_bytes().as_slice().into())
    }

    /// The proof of one end, for a purpose and a subject. The nonces are the server's and the client's.
    pub fn proof(&self, purpose: &str, end: ProofEnd, subject: &str, nonces: (&ProofBytes, &ProofBytes)) -> ProofBytes {
        self.mac(purpose, end, subject, nonces).finalize().into_bytes().into()
    }

    /// True if this is the proof of that end; in a time that does not depend on the bytes.
    pub fn is_proof(
        &self,
        purpose: &str,
        end: ProofEnd,
        subject: &str,
        nonces: (&ProofBytes, &ProofBytes),
        proof: &[u8],
    ) -> bool {
        self.mac(purpose, end, subject, nonces).verify_slice(proof).is_ok()
    }

    /// The bytes, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn hmac(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.0).expect("an HMAC takes keys of any length")
    }

    fn mac(&self, purpose: &str, end: ProofEnd, subject: &str, nonces: (&ProofBytes, &ProofBytes)) -> Hmac<Sha256> {
        let end = match end {
            ProofEnd::Client => " client",
            ProofEnd::Server => " server",
        };
        let mut mac = self.hmac();
        for part in [purpose.as_bytes(), end.as_bytes(), nonces.0, nonces.1, subject.as_bytes()] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for ProofSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProofSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_for_one_purpose_one_end_one_subject_and_two_nonces() {
        let secret = ProofSecret::new([7; 16]).unwrap();
        let (server, client) = ([1; 32], [2; 32]);
        let proof = secret.proof("p", ProofEnd::Client, "t", (&server, &client));
        let holds = |secret: &ProofSecret, purpose, end, subject, nonces| {
            secret.is_proof(purpose, end, subject, nonces, &proof)
        };
        assert!(holds(&secret, "p", ProofEnd::Client, "t", (&server, &client)));
        assert!(!holds(&secret, "q", ProofEnd::Client, "t", (&server, &client)));
        assert!(!holds(&secret, "p", ProofEnd::Server, "t", (&server, &client)));
        assert!(!holds(&secret, "p", ProofEnd::Client, "u", (&server, &client)));
        assert!(!holds(&secret, "p", ProofEnd::Client, "t", (&client, &server)));
        for other in [ProofSecret::new([8; 16]).unwrap(), secret.derive(""), secret.derive("t")] {
            assert!(!holds(&other, "p", ProofEnd::Client, "t", (&server, &client)));
        }
        assert_eq!(secret.derive("a").to_bytes(), secret.derive("a").to_bytes());
        assert_ne!(secret.derive("a").to_bytes(), secret.derive("b").to_bytes());
        assert_eq!(ProofSecret::new([0; 15]).unwrap_err(), ShortSecret(15));
    }
}
