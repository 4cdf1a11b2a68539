//! Layouts of tables: where the slot of a key may be. All have the same objects, the same lookups and the same tests.

mod bucket;
mod cluster;
mod cuckoo;
mod hopscotch;
mod table_layout;

pub use cluster::Cluster;
pub use cuckoo::Cuckoo;
pub use hopscotch::Hopscotch;
pub use table_layout::{Candidate, IndexSearch, SearchStep, TableFull, TableLayout, TableShape};
