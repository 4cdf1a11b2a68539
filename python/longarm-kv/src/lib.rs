//! The client of Longarm's key-value store as a Python module.
//!
//! ```text
//!  table      operations       keys     iterator over keys      version    versions
//!  shared     one client that threads share: the interpreter's lock is free while it waits
//!  aio        the client for asyncio     options   settings and figures of both
//!  buffer     bytes of Python objects      errors     exceptions
//! ```

mod aio;
mod buffer;
mod errors;
mod keys;
mod options;
mod shared;
mod table;
mod version;

use pyo3::prelude::*;

/// The module.
#[pymodule]
fn _longarm_kv(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<table::Table>()?;
    module.add_class::<keys::KeyIterator>()?;
    module.add_class::<version::Version>()?;
    module.add_class::<aio::table::TaskTable>()?;
    module.add_class::<aio::operation::AwaitedOperation>()?;
    module.add_class::<aio::bridge::LoopBridge>()?;
    errors::register(module)
}
