//! `libibverbs.so.1` and `librdmacm.so.1` on the Longarm device: programs built against rdma-core run
//! unchanged. Both libraries are one file.
//!
//! ```text
//!  a program ─► trampoline with the symbol's version ─► verbs (this crate) ──► device
//!              (build.rs, exports.txt)                  rdmacm ──────────────► connect
//!                                                       translate, decide nothing
//!  inline verbs of <infiniband/verbs.h> ─► tables of functions in ibv_context, ibv_qp_ex, ibv_cq_ex
//! ```
//!
//! Every object that a program holds is a structure of the header ([`abi`]) with ours right behind
//! it (`object`). A call checks what it was given, turns it into words of the device, and turns
//! the answer into what the verb's man page says: an errno returned or set, a pointer or null.
//! No panic leaves it (`boundary`).
//!
//! A caller that hands over a pointer to nothing, or uses an object after destroying it, has
//! broken the contract of C, and nothing here can notice.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(test, allow(dead_code, reason = "only the shared library exports them"))]

pub mod abi;
mod advice;
mod boundary;
mod device_list;
mod object;
mod private;
mod rdmacm;
mod rsocket;
mod socket_address;
mod symbols;
mod verbs;

#[cfg(not(test))]
mod exports {
    //! The symbols of the shared library, made by the build script.
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
