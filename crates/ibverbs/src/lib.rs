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
//! Every object that a program holds is a structure of the header (the crate `abi`) with ours right behind
//! it (`object`). A call checks its arguments, translates them for the device, and translates the
//! result as the verb's man page says: an errno returned or set, a pointer or null.
//! No panic leaves it (`boundary`).
//!
//! A caller that passes an invalid pointer, or uses an object after destroying it, breaks the
//! contract of the verb (`boundary`, Contracts). Nothing here can notice.
//!
//! # Layers
//!
//! Modules import from the lines below them only:
//!
//! ```text
//!  symbols       every exported function by its name
//!  rdmacm        calls: ep, accept, connect, bind, qp, srq, multicast, options
//!                sync (waits for the event of a call) ─► event (fetches) ─► event_effects (applies)
//!                id ─► event_object, id_object ─► id_state, channel, devices
//!  rsocket       socket calls, on the crate `rsocket`
//!  verbs         open (devices, tables of functions) and import
//!                calls by object: qp, post, qp_ex, cq, cq_ex, mr, mw, srq, domain, events
//!                our parts of objects: qp_object, cq_object, srq_object
//!                context ─► shared, advised; leaves: unacked, window_key, wr_builder, teardown, wait, wc
//!  device_list, object
//!  boundary      errno, panics, contracts
//! ```
//!
//! Objects do not know what uses them: `verbs` tells the connection manager of destroyed objects through
//! `verbs::teardown`, and a retired context is opened again by the function that retired it.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(test, allow(dead_code, reason = "only the shared library exports them"))]

mod advice;
mod boundary;
mod device_list;
mod object;
mod private;
mod rdmacm;
mod rsocket;
mod symbols;
mod verbs;

#[cfg(not(test))]
mod exports {
    //! The symbols of the shared library, made by the build script.
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
