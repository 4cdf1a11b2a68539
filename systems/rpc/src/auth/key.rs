//! Proof by a shared secret: each message of the handshake carries an HMAC over all of them.
//!
//! Both ends draw a nonce. From the secret and both nonces each derives two keys, one for each direction. A message's
//! tag is the HMAC, by its direction's key, of everything before it and of itself. So an end that has not the secret
//! makes no tag, and a recorded or reflected message fails. HMAC: RFC 2104; the derivation is that of HKDF's second
//! step with one block (RFC 5869, section 2.3).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::auth::SharedSecret;
use crate::auth::shield::{Unproven, Unsealed};
use crate::handshake::{NONCE_BYTES, SessionMessage, TAG_BYTES};

const CLIENT: &[u8] = b"longarm-rpc 1 from the client";
const SERVER: &[u8] = b"longarm-rpc 1 from the server";

type Nonce = [u8; NONCE_BYTES];
type Tag = [u8; TAG_BYTES];

/// One end of a handshake that the shared secret protects.
pub(crate) struct KeyShield {
    secret: SharedSecret,
    is_client: bool,
    nonce: Nonce,
    keys: Option<DirectionKeys>,
    /// All messages up to now.
    transcript: Sha256,
}

struct DirectionKeys {
    own: Hmac<Sha256>,
    peer: Hmac<Sha256>,
}

impl KeyShield {
    /// The client's end, and its first message.
    pub(crate) fn client(secret: &SharedSecret) -> Result<(KeyShield, SessionMessage), Unproven> {
        let shield = KeyShield::new(secret, true)?;
        let first = SessionMessage::KeyNonce(shield.nonce);
        Ok((shield, first))
    }

    pub(crate) fn server(secret: &SharedSecret) -> Result<KeyShield, Unproven> {
        KeyShield::new(secret, false)
    }

    fn new(secret: &SharedSecret, is_client: bool) -> Result<KeyShield, Unproven> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| Unproven(format!("the system gives no random bytes: {error}")))?;
        Ok(KeyShield { secret: secret.clone(), is_client, nonce, keys: None, transcript: Sha256::new() })
    }

    pub(super) fn is_ready(&self) -> bool {
        self.keys.is_some()
    }

    /// The peer's nonce, which it sends once.
    pub(super) fn on_nonce(&mut self, peer: Nonce) -> Result<Unsealed, Unproven> {
        if self.keys.is_some() {
            return Err(Unproven::new("the peer sent two nonces"));
        }
        let (client, server) = if self.is_client { (self.nonce, peer) } else { (peer, self.nonce) };
        self.transcript.update(client);
        self.transcript.update(server);
        let (from_client, from_server) =
            (self.derive(CLIENT, &client, &server)?, self.derive(SERVER, &client, &server)?);
        self.keys = Some(match self.is_client {
            true => DirectionKeys { own: from_client, peer: from_server },
            false => DirectionKeys { own: from_server, peer: from_client },
        });
        let answer = (!self.is_client).then_some(SessionMessage::KeyNonce(self.nonce));
        Ok(Unsealed { answers: answer.into_iter().collect(), messages: Vec::new() })
    }

    fn derive(&self, label: &[u8], client: &Nonce, server: &Nonce) -> Result<Hmac<Sha256>, Unproven> {
        let key = hmac(self.secret.bytes())?;
        let key = key.chain_update(label).chain_update(client).chain_update(server).chain_update([1]);
        hmac(&key.finalize().into_bytes())
    }

    pub(super) fn seal(&mut self, message: Vec<u8>) -> Result<Vec<SessionMessage>, Unproven> {
        let keys = self.keys.as_ref().ok_or_else(too_early)?;
        let tag: Tag = tagged(&keys.own, &self.transcript, &message).finalize().into_bytes().into();
        self.remember(&message);
        Ok(vec![SessionMessage::Proven { tag, message }])
    }

    pub(super) fn open(&mut self, tag: &Tag, message: &[u8]) -> Result<Unsealed, Unproven> {
        let keys = self.keys.as_ref().ok_or_else(too_early)?;
        let check = tagged(&keys.peer, &self.transcript, message);
        check.verify_slice(tag).map_err(|_| Unproven::new("the peer does not have the shared key"))?;
        self.remember(message);
        let message = SessionMessage::decode(message).ok_or_else(|| Unproven::new("a sealed message is malformed"))?;
        Ok(Unsealed { answers: Vec::new(), messages: vec![message] })
    }

    fn remember(&mut self, message: &[u8]) {
        self.transcript.update((message.len() as u64).to_le_bytes());
        self.transcript.update(message);
    }
}

fn tagged(key: &Hmac<Sha256>, transcript: &Sha256, message: &[u8]) -> Hmac<Sha256> {
    key.clone().chain_update(transcript.clone().finalize()).chain_update(message)
}

fn hmac(key: &[u8]) -> Result<Hmac<Sha256>, Unproven> {
    Hmac::new_from_slice(key).map_err(|_| Unproven::new("HMAC does not take the key"))
}

fn too_early() -> Unproven {
    Unproven::new("the peer has sent no nonce")
}
