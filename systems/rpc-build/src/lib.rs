//! Clients and servers of [`longarm-rpc`](https://docs.rs/longarm-rpc) from `.proto` files.
//!
//! A build script makes them, as tonic's does. It needs no `protoc`: [protox] compiles the files.
//!
//! ```no_run
//! // build.rs
//! fn main() -> std::io::Result<()> {
//!     longarm_rpc_build::compile_protos("proto/greeter.proto")
//! }
//! ```
//!
//! For a service `Greeter` the module of its package has two more modules: `greeter_client` with `GreeterClient`, and
//! `greeter_server` with `GreeterServer` and the trait `Greeter`. The trait is the one that tonic generates, with the types of
//! `longarm-rpc` in place of tonic's. The program takes the module in with `longarm_rpc::include_proto!("greeter")`.
//! Its `Cargo.toml` needs `longarm-rpc` and, for the build script, this crate.
//!
//! A call has one request and one reply. A `.proto` file with streams is refused, unless [`Builder::skip_streaming`] leaves these
//! methods out.
#![forbid(unsafe_code)]

mod builder;
mod client;
mod descriptors;
mod generator;
mod names;
mod server;

use std::io;
use std::path::Path;

pub use builder::{Builder, configure};
pub use prost_build::Config;
pub use prost_types::FileDescriptorSet;

/// Generates client and server of one file; imports are looked up in its directory.
///
/// # Errors
/// As [`Builder::compile_protos`].
pub fn compile_protos(proto: impl AsRef<Path>) -> io::Result<()> {
    let proto = proto.as_ref();
    let directory = proto.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    configure().compile_protos(&[proto], &[directory])
}
