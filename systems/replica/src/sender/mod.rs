//! The primary's end: numbers changes, sends them to backups, and knows which of them are safe.

mod batch;
mod config;
mod copy;
mod link;
mod moves;
mod state;
#[cfg(test)]
mod tests;
mod words;

pub use copy::CopyTask;
pub use moves::{HandOverAnswer, HandOverAsk};
pub use state::{ChangeState, ReplicaLag, ReplicaSender, SenderOptions};
pub use words::{BatchAck, BatchHead, CopyCursor, ReplicaBatch};
