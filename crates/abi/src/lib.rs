//! The structures of `<infiniband/verbs.h>` and `<rdma/rdma_cma.h>`, as C lays them out on 64-bit machines.
//!
//! Both sides of the C interface use them: the crate `ibverbs` offers it to programs, the crate `verbs` calls the
//! system's library.
//!
//! Names are those of the header, so that both can be read side by side. The sizes are those of
//! rdma-core 24 to 65. They are checked when this crate is compiled (`layout`), and against the
//! system's header in `crates/ibverbs/tests/layout.rs`.
#![allow(non_camel_case_types, missing_docs, reason = "the names and meanings are those of verbs.h")]

mod address;
mod cma;
mod consts;
mod context;
mod cq;
mod device;
mod domain;
mod layout;
mod memory;
mod qp;
pub mod socket_address;
mod srq;
mod wr;
mod zeroed;

pub use address::*;
pub use cma::*;
pub use consts::*;
pub use context::*;
pub use cq::*;
pub use device::*;
pub use domain::*;
pub use memory::*;
pub use qp::*;
pub use srq::*;
pub use wr::*;
pub use zeroed::Zeroed;

pub use libc::{c_char, c_int, c_uint, c_void, pthread_cond_t, pthread_mutex_t, size_t};
