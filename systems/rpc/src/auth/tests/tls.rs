//! Proof by certificates.

use testkit::Authority;

use super::{KEY, Talk, client_of, hello, welcome};
use crate::auth::tls::TlsShield;
use crate::auth::{ClientTls, Shield, Unproven};
use crate::handshake::SessionMessage;

fn talk(client: &ClientTls, server: &Authority) -> (Talk, Vec<SessionMessage>) {
    let (client, first) = TlsShield::client(client).unwrap();
    let server = TlsShield::server(&server.server()).unwrap();
    let talk = Talk { client: Shield::Tls(Box::new(client)), server: Shield::Tls(Box::new(server)), wire: Vec::new() };
    (talk, first)
}

fn fails(client: &ClientTls, server: &Authority) -> Unproven {
    let (mut talk, first) = talk(client, server);
    let why = talk.complete(first).expect_err("no session");
    assert!(talk.server.seal(&welcome()).is_err() || talk.server.peer().is_none());
    why
}

#[test]
fn the_right_certificates_make_a_session_whose_keys_nobody_sees() {
    let authority = Authority::default();
    let (mut talk, first) = talk(&client_of(&authority, Some("client.test"), &authority, "server.test"), &authority);
    talk.complete(first).unwrap();
    let peer = talk.server.peer().expect("the client has a certificate");
    assert_eq!(peer.names(), ["client.test"]);
    assert!(peer.certificate().is_some());
    assert!(!talk.wire_has(&KEY) && !talk.wire_has(&hello().encode()));
    assert!(talk.wire.iter().all(|message| message.len() <= crate::verbs::MESSAGE_BYTES));
}

#[test]
fn wrong_certificates_and_names_make_none() {
    let (authority, other) = (Authority::default(), Authority::default());
    let good = Some("client.test");
    for (case, client) in [
        ("a client of another authority", client_of(&other, good, &authority, "server.test")),
        ("a client without a certificate", client_of(&authority, None, &authority, "server.test")),
        ("a server of another authority", client_of(&authority, good, &other, "server.test")),
        ("a server of another name", client_of(&authority, good, &authority, "elsewhere.test")),
    ] {
        let why = fails(&client, &authority);
        assert!(why.0.contains("TLS"), "{case}: {why:?}");
    }
}

#[test]
fn a_certificate_of_another_protocol_is_refused() {
    let authority = Authority::default();
    let client = client_of(&authority, Some("client.test"), &authority, "server.test");
    let web = rustls::ClientConnection::new(client.config, client.server_name).unwrap();
    let mut web = rustls::Connection::from(web);
    let mut first = Vec::new();
    web.write_tls(&mut first).unwrap();
    let mut server = TlsShield::server(&authority.server()).unwrap();
    let mut answer = server.open(&first).unwrap();
    while let Some(SessionMessage::Tls(bytes)) = answer.answers.pop() {
        web.read_tls(&mut &bytes[..]).unwrap();
        web.process_new_packets().unwrap();
    }
    let mut last = Vec::new();
    while web.wants_write() {
        web.write_tls(&mut last).unwrap();
    }
    assert!(server.open(&last).unwrap_err().0.contains("not for calls"));
}

#[test]
fn a_recorded_handshake_makes_no_session() {
    let authority = Authority::default();
    let (client, first) =
        TlsShield::client(&client_of(&authority, Some("client.test"), &authority, "server.test")).unwrap();
    let server = || Shield::Tls(Box::new(TlsShield::server(&authority.server()).unwrap()));
    let mut talk = Talk { client: Shield::Tls(Box::new(client)), server: server(), wire: Vec::new() };
    talk.complete(first).unwrap();
    let mut again = server();
    let outcome = talk.wire.iter().try_for_each(|bytes| {
        again.open(SessionMessage::decode(bytes).unwrap()).map(|unsealed| assert_eq!(unsealed.messages, []))
    });
    assert!(outcome.is_err() && !again.is_ready());
}
