//! Typed calls above [`Call`](crate::Call): messages of Protocol Buffers, tower's layers, tarpc, JSON.

#[cfg(feature = "prost")]
#[doc(hidden)]
pub mod codegen;
mod errors;
#[cfg(any(feature = "prost", feature = "tarpc"))]
mod exchange;
#[cfg(feature = "tonic")]
pub mod grpc;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "reflection")]
pub mod reflection;
#[cfg(feature = "tower")]
mod repeat;
#[cfg(feature = "tarpc")]
pub mod tarpc;
#[cfg(feature = "prost")]
mod unary;

#[cfg(feature = "prost")]
pub use async_trait::async_trait;
pub use errors::BoxError;
#[cfg(feature = "json")]
pub use json::JsonClient;
#[cfg(feature = "tower")]
pub use repeat::RepeatUnexecuted;
#[cfg(feature = "prost")]
pub use unary::unary;

/// Takes in the code that `longarm-rpc-build` generated for a package: `longarm_rpc::include_proto!("greeter")`.
#[cfg(feature = "prost")]
#[macro_export]
macro_rules! include_proto {
    ($package:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $package, ".rs"));
    };
}
