//! Tables over the Rust API: the owner's registered memory, and readers on queue pairs.

mod error;
mod reader;
mod region;

pub use error::ReadError;
pub use reader::{FoundPlace, ReaderOptions, ReaderStats, TableReader};
pub use region::TableMemory;
