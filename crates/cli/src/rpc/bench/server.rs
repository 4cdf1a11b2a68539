//! The measured server.

use longarm_rpc::{Method, Methods, Published, Server, ServerOptions, Status};

use super::args::RpcBenchArgs;
use crate::baseline::pin_server;
use crate::error::Error;

/// Replies with the request.
pub(super) const ECHO: Method = Method::new("/longarm.bench.Bench/Echo");
/// Replies with as many bytes as the first four of the request say, little endian.
pub(super) const FILL: Method = Method::new("/longarm.bench.Bench/Fill");
/// Replies with the resident memory of the server in bytes: eight, little endian.
pub(super) const RESIDENT: Method = Method::new("/longarm.bench.Bench/Resident");

/// The longest reply of `FILL`, in bytes.
const LONGEST: usize = 8 << 20;

/// Runs the server until the process ends.
pub(super) fn serve(address: &str, args: &RpcBenchArgs) -> Result<(), Error> {
    let threads = args.server_threads;
    if threads == 1 {
        // The threads that the server starts inherit the core.
        pin_server(0, 1);
    }
    let options = ServerOptions {
        threads: threads as usize,
        slots: 64,
        max_sessions: 16_384,
        tuning: args.switches.tuning(),
        ..ServerOptions::default()
    };
    let server = args.proof.files.demand(Server::builder())?.options(options).add_service(methods())?.bind(address)?;
    println!("listening on {}", server.local_addr());
    server.wait();
    Ok(())
}

fn methods() -> Methods {
    let bytes = Published::new(vec![7; LONGEST]);
    Methods::new("longarm.bench.Bench")
        .direct(ECHO, |request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .published(FILL, move |request| {
            let len = request.first_chunk().map(|first| u32::from_le_bytes(*first) as usize);
            let slice = len.and_then(|len| bytes.slice(0..len));
            slice.ok_or_else(|| Status::invalid_argument(format!("give a length of at most {LONGEST} bytes")))
        })
        .direct(RESIDENT, |_, reply| {
            let resident = crate::compare::resident_bytes().map_err(|e| Status::internal(e.to_string()))?;
            reply.extend_from_slice(&resident.to_le_bytes());
            Ok(())
        })
}
