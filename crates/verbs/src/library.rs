//! The functions of the system's libraries, loaded by the first call that needs one.

mod loader;
mod rdmacm;
mod verbs;

use std::sync::OnceLock;

use loader::LoadedLibrary;

pub use loader::LoadError;
pub(crate) use rdmacm::{RdmaCm, rdma_cm};
pub(crate) use verbs::{Verbs, verbs};

/// Whether the loader gives Longarm's own library in the place of the system's: it has the functions of both in one file.
pub(crate) fn is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        let library = LoadedLibrary::open("libibverbs.so.1");
        library.is_ok_and(|library| library.symbol(c"riomap", c"RDMACM_1.0").is_ok())
    })
}
