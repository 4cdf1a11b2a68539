//! The services of the examples: generated code, which the build script makes of `proto/`.
#![forbid(unsafe_code)]

/// Greetings, from `proto/greeter.proto`.
#[allow(missing_docs)]
pub mod greeter {
    longarm_rpc::include_proto!("greeter");
}
