//! Python environments with packages from PyPI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::run;

/// Whether packages come with those that they depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependencies {
    All,
    None,
}

/// The Python of an environment with exactly these packages; the first call loads them.
///
/// # Errors
/// If Python has no module venv, or PyPI cannot be reached.
pub(crate) fn environment(dir: &Path, packages: &[&str], dependencies: Dependencies) -> Result<PathBuf, String> {
    let (mark, list) = (dir.join("complete"), packages.join("\n"));
    if !fs::read_to_string(&mark).is_ok_and(|text| text == list) {
        let text = |path: PathBuf| path.into_os_string().into_string().map_err(|_| "the path is not text".to_owned());
        run("python3", &["-m", "venv", &text(dir.to_owned())?])?;
        let alone: &[&str] = if dependencies == Dependencies::None { &["--no-deps"] } else { &[] };
        run(&text(dir.join("bin/pip"))?, &[&["install", "--quiet"], alone, packages].concat())?;
        fs::write(&mark, list).map_err(|error| error.to_string())?;
    }
    Ok(dir.join("bin/python"))
}
