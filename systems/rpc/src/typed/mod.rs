//! Typed calls above [`Call`](crate::Call): messages of Protocol Buffers, tower's layers, tarpc, JSON.

#[cfg(feature = "prost")]
#[doc(hidden)]
pub mod codegen;
mod errors;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "reflection")]
mod reflection;
#[cfg(feature = "tower")]
mod repeat;
#[cfg(feature = "tarpc")]
pub mod tarpc;
#[cfg(feature = "prost")]
mod unary;

// Generated code names this crate; that of the reflection service is inside it.
#[cfg(feature = "prost")]
extern crate self as longarm_rpc;

#[cfg(feature = "prost")]
pub use async_trait::async_trait;
pub use errors::BoxError;
#[cfg(feature = "json")]
pub use json::JsonClient;
#[cfg(feature = "reflection")]
pub use reflection::{ReflectionClient, ServiceCatalog, ServiceInfo};
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
