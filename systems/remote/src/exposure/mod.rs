//! Memory that another process exposes: peers go on reading while the program that owns it is stopped, or has been killed.
//!
//! ```text
//!  process    the program's half: starts the memory process, and starts another when it ends
//!  serve      the memory process's half: carries requests out, and stays for its peers
//!  message    requests and answers between them          name     a memory process that an earlier life has left
//!  keeper     connections of peers, and their windows    error    reasons why not
//! ```

mod error;
mod keeper;
mod message;
mod name;
mod process;
mod serve;

pub use error::ExposureError;
pub use keeper::{ConnectionToken, OpenWindow, WindowKeeper, WindowSpec, connection_data};
pub use name::end_left_memory;
pub use process::{MemoryProcess, MemoryProcessOptions, ProcessWindow};
pub use serve::serve_memory;
