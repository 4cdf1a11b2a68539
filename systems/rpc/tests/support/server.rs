//! The server process: methods that note what they execute, and one that tells the server's figures.

use std::sync::{Arc, OnceLock};

use longarm_rpc::{Client, Method, Methods, Response, Server, ServerStats};

use super::{ADDRESS, Journal, PATIENCE};

/// Notes the number at the start of the body, and echoes.
pub(crate) const NOTE: Method = Method::new("/test.Note/Note");
/// The same in a thread of the pool.
pub(crate) const LATER: Method = Method::new("/test.Note/Later");
/// Echoes.
pub(crate) const ECHO: Method = Method::new("/test.Note/Echo");
/// Tells figures of the server.
pub(crate) const FIGURES: Method = Method::new("/test.Note/Figures");

static SERVER: OnceLock<Server> = OnceLock::new();

/// Some of [`ServerStats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) sessions: u64,
    pub(crate) malformed: u64,
    pub(crate) requests: u64,
    pub(crate) repeated: u64,
    pub(crate) dropped: u64,
}

/// Serves until it is killed.
pub(super) fn serve() {
    let server = testkit::wait_for("the address is free", || bind().ok());
    assert!(SERVER.set(server).is_ok());
    loop {
        std::thread::park();
    }
}

fn bind() -> Result<Server, longarm_rpc::Status> {
    let journal = Arc::new(Journal::open());
    let pool = Arc::clone(&journal);
    let methods = Methods::new("test.Note")
        .direct(NOTE, move |body, reply| {
            journal.note(number_of(body));
            reply.extend_from_slice(body);
            Ok(())
        })
        .blocking(LATER, move |request| {
            let body = request.into_inner();
            pool.note(number_of(&body));
            Ok(Response::new(body))
        })
        .direct(ECHO, |body, reply| {
            reply.extend_from_slice(body);
            Ok(())
        })
        .direct(FIGURES, |_, reply| {
            let stats = SERVER.get().map(Server::stats).unwrap_or_default();
            encode(&stats, reply);
            Ok(())
        });
    Server::builder().add_service(methods)?.bind(ADDRESS)
}

fn number_of(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

fn encode(stats: &ServerStats, out: &mut Vec<u8>) {
    for figure in [stats.sessions, stats.malformed, stats.requests, stats.repeated, stats.dropped] {
        out.extend_from_slice(&figure.to_le_bytes());
    }
}

/// The server's figures now.
pub(crate) fn figures(client: &mut Client) -> Figures {
    let bytes = client.call(FIGURES, b"", PATIENCE).unwrap();
    let [sessions, malformed, requests, repeated, dropped] = [0, 8, 16, 24, 32].map(|at| number_of(&bytes[at..]));
    Figures { sessions, malformed, requests, repeated, dropped }
}
