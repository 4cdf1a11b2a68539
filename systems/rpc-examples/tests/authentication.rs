//! Servers and clients that demand proofs of each other, over connections.

use std::path::Path;
use std::time::Duration;

use longarm_rpc::{
    Client, ClientOptions, ClientTls, Code, Executed, Method, Methods, Response, RunOn, Server, ServerBuilder,
    SharedSecret, Way,
};
use testkit::Authority;

const CALLER: Method = Method::new("/who.Who/Caller");
/// Patience: other programs share the machine.
const SECONDS: Duration = Duration::from_secs(20);

/// Runs `body` with a hub and a network namespace of its own, all in packets, which are recorded in the file that `body`
/// gets. To be called from the test function of that name itself.
fn alone(test: &str, body: impl FnOnce(&Path)) {
    let packets = std::env::temp_dir().join(format!("longarm-rpc-{test}.pcapng"));
    if testkit::role().is_some() {
        return body(&packets);
    }
    let mut command = testkit::run_again(test, "body");
    command.env("LONGARM_LOCAL", "off").env("LONGARM_CAPTURE", &packets);
    hub::testing::passes_with_hub(&format!("rpc-{test}"), command);
    let _ = std::fs::remove_file(packets);
}

/// A server whose method says who called it.
fn serve(demands: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let who = Methods::new("who.Who").asynchronous(CALLER, RunOn::Poller, |request| async move {
        let names = request.peer().map(|peer| format!("{:?}", peer.names()));
        Ok(Response::new(names.unwrap_or_else(|| "nobody".into()).into()))
    });
    demands(Server::builder().add_service(who).unwrap()).bind("127.0.0.1:0").unwrap()
}

fn plain() -> ClientOptions {
    ClientOptions { connect_timeout: SECONDS, way: Some(Way::Ring), ..ClientOptions::default() }
}

/// A client with a certificate of `authority` if it has a name. It trusts a server `server_name` of `servers`.
fn with_tls(
    authority: &Authority,
    name: Option<&str>,
    servers: &Authority,
    server_name: &'static str,
) -> ClientOptions {
    let tls = ClientTls { config: authority.client(name, servers), server_name: server_name.try_into().unwrap() };
    ClientOptions { tls: Some(tls), ..plain() }
}

fn with_key(byte: u8) -> ClientOptions {
    ClientOptions { shared_key: Some(secret(byte)), ..plain() }
}

fn secret(byte: u8) -> SharedSecret {
    SharedSecret::new([byte; 32]).unwrap()
}

fn caller(server: &Server, options: &ClientOptions) -> String {
    let mut client = Client::connect(server.local_addr(), options).unwrap();
    String::from_utf8(client.call(CALLER, b"", SECONDS).unwrap().to_vec()).unwrap()
}

/// The client gets no session, and the reason is the missing proof.
fn is_refused(server: &Server, case: &str, options: &ClientOptions) {
    let status = Client::connect(server.local_addr(), options).expect_err(case);
    assert_eq!((status.code(), status.executed()), (Code::Unauthenticated, Executed::No), "{case}: {status}");
}

#[test]
fn tls_admits_those_with_the_right_certificates() {
    alone("tls_admits_those_with_the_right_certificates", |_| {
        let (authority, other) = (Authority::default(), Authority::default());
        let server = serve(|builder| builder.tls(authority.server()));
        let good = with_tls(&authority, Some("client.test"), &authority, "server.test");
        assert_eq!(caller(&server, &good), r#"["client.test"]"#);
        let cases = [
            ("a client without a proof", plain()),
            ("a client with a key", with_key(1)),
            ("a client of another authority", with_tls(&other, Some("x.test"), &authority, "server.test")),
            ("a client without a certificate", with_tls(&authority, None, &authority, "server.test")),
            ("a server of another authority", with_tls(&authority, Some("x.test"), &other, "server.test")),
            ("a server of another name", with_tls(&authority, Some("x.test"), &authority, "other.test")),
        ];
        for (case, options) in &cases {
            is_refused(&server, case, options);
        }
        // The server refuses four of them. It learns of the two clients that refuse it if their alerts arrive before they go.
        testkit::wait_until("the server has counted its refusals", || {
            (4..=cases.len() as u64).contains(&server.stats().unauthenticated)
        });
        assert_eq!(server.stats().accepted, 1, "no other session began");
        assert_eq!(caller(&server, &good), r#"["client.test"]"#, "the server goes on");
    });
}

#[test]
fn a_shared_key_admits_those_who_have_it() {
    alone("a_shared_key_admits_those_who_have_it", |_| {
        let authority = Authority::default();
        let server = serve(|builder| builder.shared_key(secret(1)));
        assert_eq!(caller(&server, &with_key(1)), "[]");
        is_refused(&server, "another key", &with_key(2));
        is_refused(&server, "no key", &plain());
        is_refused(&server, "TLS", &with_tls(&authority, None, &authority, "server.test"));
        testkit::wait_until("the server has counted all refusals", || server.stats().unauthenticated == 3);
        assert_eq!(server.stats().accepted, 1, "no other session began");
    });
}

#[test]
fn clients_refuse_servers_without_a_proof() {
    alone("clients_refuse_servers_without_a_proof", |_| {
        let authority = Authority::default();
        let server = serve(|builder| builder);
        is_refused(&server, "TLS", &with_tls(&authority, None, &authority, "server.test"));
        is_refused(&server, "a key", &with_key(1));
        assert_eq!(caller(&server, &plain()), "nobody");
        let both = ClientOptions { shared_key: Some(secret(1)), ..with_tls(&authority, None, &authority, "x") };
        assert_eq!(Client::connect(server.local_addr(), &both).unwrap_err().code(), Code::InvalidArgument);
    });
}

/// The reason for the way stands in the Welcome, beside the memory keys. The session with TLS has one reason, the session
/// without TLS after it has another: when the capture has the second, it has all packets of the first.
#[test]
fn packets_show_the_welcome_without_tls_only() {
    alone("packets_show_the_welcome_without_tls_only", |packets| {
        let authority = Authority::default();
        let seen = |words: &str| {
            let packets = std::fs::read(packets).unwrap();
            packets.windows(words.len()).any(|window| window == words.as_bytes())
        };
        let secured = serve(|builder| builder.tls(authority.server()));
        let tls = with_tls(&authority, Some("client.test"), &authority, "server.test");
        let client = Client::connect(secured.local_addr(), &tls).unwrap();
        assert_eq!(client.reason(), "the client forces it");
        let open = serve(|builder| builder.shared_key(secret(1)));
        let unforced = ClientOptions { way: None, ..with_key(1) };
        let other = Client::connect(open.local_addr(), &unforced).unwrap();
        let reason = other.reason().to_owned();
        assert_ne!(reason, client.reason());
        drop((client, other));
        testkit::wait_until("the capture has the Welcome without TLS", || seen(&reason));
        assert!(!seen("the client forces it"), "TLS hides the other");
    });
}
