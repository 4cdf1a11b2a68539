//! Proof by a shared secret.

use super::{KEY, Talk, hello, welcome};
use crate::auth::key::KeyShield;
use crate::auth::{SharedSecret, Shield};
use crate::handshake::SessionMessage;

pub(super) fn secret(byte: u8) -> SharedSecret {
    SharedSecret::new([byte; 32]).unwrap()
}

pub(super) fn talk(client: u8, server: u8) -> (Talk, SessionMessage) {
    let (client, first) = KeyShield::client(&secret(client)).unwrap();
    let server = KeyShield::server(&secret(server)).unwrap();
    let talk = Talk { client: Shield::Key(Box::new(client)), server: Shield::Key(Box::new(server)), wire: Vec::new() };
    (talk, first)
}

#[test]
fn the_same_secret_makes_a_session() {
    let (mut talk, first) = talk(1, 1);
    talk.complete(vec![first]).unwrap();
    assert!(talk.server.peer().is_some());
    assert!(talk.wire_has(&KEY), "the shared key hides nothing, and the documents say so");
    assert!(!talk.wire_has(&[1; 32]), "the secret itself stays");
}

#[test]
fn another_secret_makes_none() {
    let (mut talk, first) = talk(1, 2);
    assert!(talk.complete(vec![first]).unwrap_err().0.contains("shared key"));
    assert!(SharedSecret::new([1; 15]).is_err());
    assert!(!format!("{:?}", secret(77)).contains("77"));
}

/// A recording of the client, played to the server again, meets another nonce.
#[test]
fn a_recorded_handshake_makes_no_session() {
    let (mut talk, first) = talk(1, 1);
    talk.complete(vec![first]).unwrap();
    let mut again = KeyShield::server(&secret(1)).unwrap();
    let mut opened = Vec::new();
    for bytes in &talk.wire {
        match SessionMessage::decode(bytes).unwrap() {
            SessionMessage::KeyNonce(nonce) => drop(again.on_nonce(nonce)),
            SessionMessage::Proven { tag, message } => opened.push(again.open(&tag, &message).is_ok()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(opened, [false; 3]);
}

/// The peer sends us our own messages: nonce and tags.
#[test]
fn reflected_and_repeated_messages_are_refused() {
    let (mut client, first) = KeyShield::client(&secret(1)).unwrap();
    let SessionMessage::KeyNonce(nonce) = first else { panic!("{first:?}") };
    client.on_nonce(nonce).unwrap();
    let SessionMessage::Proven { tag, message } = client.seal(hello().encode()).unwrap().remove(0) else {
        panic!("not sealed");
    };
    assert!(client.open(&tag, &message).is_err());
    assert!(client.on_nonce(nonce).is_err(), "a second nonce");

    let (mut talk, first) = talk(1, 1);
    talk.deliver(true, vec![first]).unwrap();
    let sealed = talk.client.seal(&hello()).unwrap();
    assert_eq!(talk.deliver(true, sealed.clone()).unwrap(), [hello()]);
    assert!(talk.deliver(true, sealed).is_err(), "the same again");
    assert!(talk.client.seal(&welcome()).is_ok());
}
