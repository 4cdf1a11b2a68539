//! Bytes that no honest end sends.

use super::{KEY, hello, welcome};
use crate::auth::{ServerDemands, Shield};
use crate::handshake::SessionMessage;

#[test]
fn an_end_without_demands_refuses_proofs() {
    let demands = ServerDemands::default();
    assert!(matches!(demands.shield(&hello()), Ok(Shield::Plain)));
    for proof in [SessionMessage::Tls(vec![1]), SessionMessage::KeyNonce([0; 32])] {
        assert!(demands.shield(&proof).is_err());
        assert!(Shield::Plain.open(proof).is_err());
    }
    let unsealed = Shield::Plain.open(welcome()).unwrap();
    assert_eq!(unsealed.messages, [welcome()]);
    assert!(welcome().encode().windows(KEY.len()).any(|window| window == KEY));
}

#[cfg(feature = "shared-key")]
#[test]
fn an_end_with_demands_refuses_plain_messages() {
    use super::key::{secret, talk};
    let mut demands = ServerDemands::default();
    demands.key.get_or_insert_with(|| secret(1));
    for first in
        [hello(), welcome(), SessionMessage::Tls(vec![1]), SessionMessage::Proven { tag: [0; 32], message: vec![] }]
    {
        assert!(demands.shield(&first).is_err(), "{first:?}");
    }
    let (mut pair, first) = talk(1, 1);
    assert!(pair.client.open(welcome()).is_err(), "before the proof");
    pair.deliver(true, vec![first]).unwrap();
    assert!(pair.client.open(welcome()).is_err(), "after it");
    assert!(pair.server.open(hello()).is_err());
}

/// Each message of a handshake, changed at one place: no end takes it for a message of the session.
#[cfg(feature = "shared-key")]
#[test]
fn mutated_messages_make_no_session() {
    use super::key::talk;
    let bits = |len_bytes: usize| (0..len_bytes * 8).map(|bit| (bit / 8, 1_u8 << (bit % 8)));
    let (mut pair, first) = talk(1, 1);
    pair.deliver(true, vec![first]).unwrap();
    let sealed = pair.client.seal(&hello()).unwrap().remove(0).encode();
    for (at, bit) in bits(sealed.len()) {
        let mut bytes = sealed.clone();
        bytes[at] ^= bit;
        if let Some(message) = SessionMessage::decode(&bytes) {
            assert!(pair.server.open(message).is_err(), "bit {bit} of byte {at}");
        }
    }
    assert!(pair.server.open(SessionMessage::decode(&sealed).unwrap()).is_ok(), "the real one is still good");
}

/// The same for TLS, where a failed end stays failed: one handshake for each change.
#[cfg(feature = "tls")]
#[test]
fn mutated_records_make_no_session() {
    use super::{Talk, client_of};
    use crate::auth::tls::TlsShield;
    use testkit::Authority;
    let authority = Authority::default();
    let (client, server) = (client_of(&authority, Some("client.test"), &authority, "server.test"), authority.server());
    for seed in 0..200_usize {
        let (end, first) = TlsShield::client(&client).unwrap();
        let other = TlsShield::server(&server).unwrap();
        let mut talk = Talk { client: Shield::Tls(Box::new(end)), server: Shield::Tls(Box::new(other)), wire: vec![] };
        let mut on_the_way = vec![(true, first)];
        let (mut count, mut is_changed) = (0, false);
        let outcome = 'talk: loop {
            let Some((from_client, messages)) = on_the_way.pop() else { break Ok(()) };
            for message in messages {
                let SessionMessage::Tls(mut bytes) = message else { panic!("{message:?}") };
                // The change hits the message with this number, and one of its bits.
                if count == seed % 4 && !is_changed {
                    let at = seed * 7919 % bytes.len();
                    if !is_ignored(&bytes, at) {
                        bytes[at] ^= 1 << (seed % 8);
                        is_changed = true;
                    }
                }
                count += 1;
                let end = if from_client { &mut talk.server } else { &mut talk.client };
                match end.open(SessionMessage::Tls(bytes)) {
                    Ok(unsealed) => on_the_way.push((!from_client, unsealed.answers)),
                    Err(why) => break 'talk Err(why),
                }
            }
        };
        let is_made = outcome.is_ok() && talk.client.is_ready() && talk.server.is_ready();
        assert!(!(is_changed && is_made), "change {seed} made a session");
    }
}

/// True if rustls does not use the byte at `at`: the version in a record's header (RFC 8446, section 5.1), and the outer type
/// of an encrypted record. The real type is inside, and the tag covers it.
#[cfg(feature = "tls")]
fn is_ignored(records: &[u8], at: usize) -> bool {
    let mut start = 0;
    while let Some(&[_, _, _, high, low]) = records[start..].first_chunk() {
        let is_encrypted = records[start] == 0x17;
        if (start + 1..start + 3).contains(&at) || (is_encrypted && at == start) {
            return true;
        }
        start += 5 + usize::from(u16::from_be_bytes([high, low]));
        if start > at || start > records.len() {
            return false;
        }
    }
    false
}
