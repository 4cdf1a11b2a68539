//! A door for Redis clients: RESP2 and RESP3 over TCP or TLS, on a table of `longarm-kv`.
//!
//! Redis clients and RDMA clients see each other's changes: all go through the table's one writer.
//!
//! ```no_run
//! use longarm_kv::{KvServer, TableOptions};
//! use longarm_resp::{RespOptions, RespServer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = KvServer::builder().table("default", TableOptions::default()).bind("0.0.0.0:7480")?;
//! let table = server.local_table("default").ok_or("no such table")?;
//! let door = RespServer::open(table, "127.0.0.1:6379", RespOptions::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! ```text
//!  server            connections and the thread that serves them
//!  valkey            connections by RDMA
//!  commands          what clients may ask for
//!  call              operations of a command on the table
//!  door, client      what all clients share, and the state of one
//!  decode, reply     requests and replies as bytes
//!  nodes             the cluster that clients see
//!  glob, number, decimal, clock, users
//!  rdb               files of Redis, to be imported
//! ```
#![forbid(unsafe_code)]

mod call;
mod client;
mod clock;
mod commands;
mod decimal;
mod decode;
mod door;
mod error;
mod glob;
mod inline;
mod nodes;
mod number;
mod rdb;
mod reply;
mod server;
mod users;
mod valkey;

pub use door::DoorCounts;
pub use rdb::{RdbError, RdbReader, RdbString};
pub use server::{RespError, RespOptions, RespServer};
pub use users::{Users, UsersError};

/// The commands of the door: name, group, and a line about each.
pub fn commands() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    commands::table::COMMANDS.iter().map(|command| (command.name, command.group, command.summary))
}

/// Decodes a stream of requests that arrives in pieces of so many bytes, as the door does: the requests, and the refusal of what
/// follows them, if it is none. For fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn decode_stream(stream: &[u8], piece_bytes: usize, is_stranger: bool) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = if is_stranger { decode::RequestLimits::STRANGER } else { decode::RequestLimits::FULL };
    let (mut decoder, mut requests, mut start) = (decode::RequestDecoder::default(), Vec::new(), 0);
    for end in (1..=stream.len()).filter(|end| end % piece_bytes.max(1) == 0 || *end == stream.len()) {
        loop {
            match decoder.decode(&stream[start..end], limits) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    requests.push(decoder.arguments(&stream[start..start + len]).map(<[u8]>::to_vec).collect());
                    decoder.clear();
                    start += len;
                }
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
    }
    (requests, None)
}

/// Whether a pattern matches a name. For fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn glob_matches(pattern: &[u8], name: &[u8]) -> bool {
    glob::matches(pattern, name)
}
