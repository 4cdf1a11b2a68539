//! The figures beside Redis, if it is installed.

use std::process::Command;

use crate::error::Error;

const BENCH: &str = "kv bench --system kv,redis --workload c --keys 10000 --depth 1,16 --seconds 0.5";

/// Measures this store and Redis, and prints both.
pub(super) fn redis() -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("redis-server").is_file()) {
        println!("redis-server is not on the PATH. With it, this measures both: longarm {BENCH}");
        return Ok(());
    }
    println!("beside Redis over a Unix socket: longarm {BENCH}");
    let status = Command::new(std::env::current_exe()?).args(BENCH.split(' ')).status()?;
    if status.success() { Ok(()) } else { Err(Error::Peer("the measurement failed; its own message is above".into())) }
}
