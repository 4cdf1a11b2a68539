//! The services of the examples: generated code, which the build script makes of `proto/`, and the ways to reach them.
#![forbid(unsafe_code)]

mod addresses;

pub use addresses::{AnyChannel, connect, serve};

/// Greetings, from `proto/greeter.proto`.
#[allow(missing_docs)]
pub mod greeter {
    longarm_rpc::include_proto!("greeter");
}
