//! Both ends of a handshake, without a network.

mod hostile;
#[cfg(feature = "shared-key")]
mod key;
#[cfg(feature = "tls")]
mod tls;

use longarm::RemoteKey;
#[cfg(feature = "tls")]
use testkit::Authority;

#[cfg(feature = "tls")]
use crate::auth::ClientTls;
#[cfg(any(feature = "tls", feature = "shared-key"))]
use crate::auth::{Shield, Unproven};
use crate::handshake::{Hello, OfferedMemory, SessionMessage, SessionSizes, Welcome};
use crate::way::Way;

const SIZES: SessionSizes =
    SessionSizes { slots: 4, slot_bytes: 256, ring_bytes: 4096, max_message_bytes: 4096, datagram_bytes: 1024 };
/// The encoding of a memory key, easy to find.
const KEY: [u8; RemoteKey::ENCODED_BYTES] = [0xa5; RemoteKey::ENCODED_BYTES];

/// A client with a certificate of `authority` if it has a name. It trusts a server `server_name` of `servers`.
#[cfg(feature = "tls")]
fn client_of(authority: &Authority, name: Option<&str>, servers: &Authority, server_name: &'static str) -> ClientTls {
    ClientTls { config: authority.client(name, servers), server_name: server_name.try_into().unwrap() }
}

fn hello() -> SessionMessage {
    SessionMessage::Hello(Hello::new(vec![Way::Ring], false, SIZES, true, 7))
}

fn welcome() -> SessionMessage {
    let memory = OfferedMemory::of_bytes(KEY);
    SessionMessage::Welcome(Welcome { way: Way::Ring, why: "both".into(), sizes: SIZES, session: 0, token: 1, memory })
}

/// A client and a server, and everything that they have sent to each other.
#[cfg(any(feature = "tls", feature = "shared-key"))]
struct Talk {
    client: Shield,
    server: Shield,
    wire: Vec<Vec<u8>>,
}

#[cfg(any(feature = "tls", feature = "shared-key"))]
impl Talk {
    /// Brings messages to the other end until nobody answers. Returns those that an end received sealed.
    fn deliver(&mut self, from_client: bool, messages: Vec<SessionMessage>) -> Result<Vec<SessionMessage>, Unproven> {
        let (mut received, mut on_the_way) = (Vec::new(), vec![(from_client, messages)]);
        while let Some((from_client, messages)) = on_the_way.pop() {
            for message in messages {
                let bytes = message.encode();
                let message = SessionMessage::decode(&bytes).unwrap();
                self.wire.push(bytes);
                let end = if from_client { &mut self.server } else { &mut self.client };
                let unsealed = end.open(message)?;
                received.extend(unsealed.messages);
                on_the_way.push((!from_client, unsealed.answers));
            }
        }
        Ok(received)
    }

    /// The whole handshake: proofs, Hello, Welcome, and again Welcome in the place of Ready.
    fn complete(&mut self, first: Vec<SessionMessage>) -> Result<(), Unproven> {
        assert_eq!(self.deliver(true, first)?, [], "nothing is sealed in the proofs");
        for (from_client, message) in [(true, hello()), (false, welcome()), (true, welcome())] {
            let end = if from_client { &mut self.client } else { &mut self.server };
            let sealed = end.seal(&message)?;
            assert_eq!(self.deliver(from_client, sealed)?, [message]);
        }
        Ok(())
    }

    fn wire_has(&self, bytes: &[u8]) -> bool {
        self.wire.concat().windows(bytes.len()).any(|window| window == bytes)
    }
}
