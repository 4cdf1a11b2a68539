//! The state table as a snapshot, and every refusal of modify and post.

mod modify;
mod post;
mod snapshot;
