//! The server's memory for clients that do nothing.

use std::time::Duration;

use longarm_rpc::Client;

use super::case::BenchCase;
use super::clients::BenchClients;
use super::figures::{BenchLine, BenchPath, IdleClients};
use super::local::BenchServer;
use super::measure::refused;
use super::server::RESIDENT;
use crate::error::Error;

/// The time for one question about memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects the clients, and asks the server before and after. The first client, which asks, does not count.
pub(super) fn line(case: &BenchCase, server: &BenchServer, path: BenchPath, goes_on: bool) -> Result<BenchLine, Error> {
    let mut first = match case.connect(server) {
        Ok(client) => client,
        Err(status) => return refused(case, status, goes_on),
    };
    resident_bytes(&mut first)?;
    let before = resident_bytes(&mut first)?;
    let clients = BenchClients::connect_threads(case, server)?;
    let grown = resident_bytes(&mut first)?.saturating_sub(before);
    drop(clients);
    let server_bytes_per_client = grown / u64::from(case.clients);
    Ok(BenchLine::Idle(IdleClients { way: case.way, path, clients: case.clients, server_bytes_per_client }))
}

fn resident_bytes(client: &mut Client) -> Result<u64, Error> {
    let reply = client.call(RESIDENT, &[], PATIENCE)?;
    let bytes = reply.as_ref().try_into().map(u64::from_le_bytes);
    bytes.map_err(|_| Error::Peer("the server did not tell its memory".into()))
}
