//! Longarm against Linux Soft-RoCE in a virtual machine, and the crate `longarm` on the drivers there: builds the programs
//! and runs `longarm-interop`.

use std::path::Path;

use crate::build::{self, Program};
use crate::run::{root, run};

/// The programs that the guest runs, below the repository's root.
const SUITES: &str = "target/interop-suites";

/// Runs the cases that the arguments select; see `cargo xtask interop --help`.
pub(crate) fn interop(args: &[&str]) -> Result<(), String> {
    let programs = build::programs()?;
    let suites = root().join(SUITES);
    collect(&programs, &suites)?;
    let suites = suites.to_str().ok_or("the path is not text")?;
    let interop = programs.iter().find(|program| program.package == "interop" && program.kind == "bin");
    let interop = interop.and_then(|program| program.file.to_str()).ok_or("Cargo built no longarm-interop")?;
    run(interop, &[&["--suites", suites], args].concat())
}

/// Links the tests and examples of the crate `longarm`, and the command, into `directory` by their names.
fn collect(programs: &[Program], directory: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(directory);
    let problem = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory.join("programs")).map_err(problem)?;
    for Program { package, kind, name, file } in programs {
        let to = match (&**package, &**kind) {
            ("crates/longarm", "example") => directory.join("programs").join(name),
            ("crates/longarm", "test") | ("crates/cli", "bin") => directory.join(name),
            _ => continue,
        };
        std::fs::hard_link(file, &to).or_else(|_| std::fs::copy(file, &to).map(drop)).map_err(problem)?;
    }
    Ok(())
}
