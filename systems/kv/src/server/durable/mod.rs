//! Tables on disk: a log of all changes, and snapshots.
//!
//! ```text
//!  directory   opening a directory: restore, log, snapshots
//!  snapshots   the thread that writes them
//!  files       directories without their servers: checks, repair, backup
//!  restore     from records to tables           ahead   the thread that reads them
//!  replies     answers that wait for the disk
//!  life        the member of a cluster whose data they are
//!  writer      what restoring and snapshots need of a table's writer
//!  table_log   the changes of one table on their way to the log
//!  record, wall, options   the words of all
//! ```

mod ahead;
mod directory;
mod files;
mod life;
mod options;
mod record;
mod replies;
mod restore;
mod snapshots;
mod table_log;
mod wall;
mod writer;

pub use files::{DataReport, backup_data, check_data, repair_data, restore_data};
pub use options::{DataError, DataFigures, DataOptions};

pub(crate) use directory::DataDirectory;
pub(crate) use life::MemberLife;
pub(crate) use replies::{deferred, run_reply, wait_for_disk};
pub(crate) use table_log::{TableLog, refused, unix};
pub(crate) use wall::ClockPair;
