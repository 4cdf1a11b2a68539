//! Fuzzing: every target for a while.

use crate::run::{root, run_with};

/// Runs each target under `fuzz/fuzz_targets` for `seconds`.
pub(crate) fn all(seconds: &str) -> Result<(), String> {
    let dir = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut targets: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(String::from)).collect();
    targets.sort();
    for target in targets {
        let time = format!("-max_total_time={seconds}");
        // The sanitizer's flags are unstable; this variable makes the stable compiler accept them.
        run_with("cargo", &["fuzz", "run", &target, "--", &time], &[("RUSTC_BOOTSTRAP", "1")])?;
    }
    Ok(())
}
