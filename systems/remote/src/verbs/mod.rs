//! Tables over the Rust API: the owner's registered memory, and readers on queue pairs.

mod alone_write;
mod direct;
mod error;
mod lane_read;
mod lanes;
mod reader;
mod region;
mod shared_lanes;
mod shared_reader;
mod shared_scan;
mod shared_writer;
mod timeout;
mod to_the_end;
mod tree_reader;
mod turn;
mod writer;

pub use error::ReadError;
pub use lanes::{ReaderOptions, ReaderStats};
pub use reader::{FoundPlace, TableReader};
pub use region::TableMemory;
pub use shared_reader::{SharedTableReader, SharedTreeReader};
pub(crate) use timeout::within;
pub use tree_reader::TreeReader;
pub(crate) use turn::yield_turn;
pub use writer::{AloneError, AloneOutcome, WriterPass};
