//! Reasons why a program was not started, with the exit codes of shells, `env` and `timeout`.

use std::io;
use std::path::PathBuf;

/// The reason why a program was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartFailure {
    #[error("{name}: there is no such program (looked in PATH){hint}")]
    NotFound { name: String, hint: String },
    #[error("{} cannot be executed: {reason}", path.display())]
    NotExecutable { path: PathBuf, reason: String },
    #[error(
        "{} runs with additional rights ({reason}): the loader ignores the caller's library path for such programs. \
         Run longarm with these rights instead, as in `sudo longarm run -- …`, or copy the program",
        path.display()
    )]
    Privileged { path: PathBuf, reason: &'static str },
    #[error("{0}")]
    Usage(String),
    #[error("the library libibverbs.so is not there; set LONGARM_LIB to it. Looked for:\n  {}", tried.join("\n  "))]
    NoLibrary { tried: Vec<String> },
    #[error("cannot make a namespace for the program: {0}; `--mode plain` needs none")]
    NoNamespace(String),
    #[error("the hosts cannot be made: {0}")]
    NoHosts(String),
    #[error(transparent)]
    Hub(#[from] hub::client::AttachError),
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },
}

impl StartFailure {
    /// The exit code: 127 and 126 as from a shell, 125 for failures of Longarm.
    pub(crate) fn code(&self) -> u8 {
        match self {
            StartFailure::NotFound { .. } => 127,
            StartFailure::NotExecutable { .. } | StartFailure::Privileged { .. } => 126,
            _ => 125,
        }
    }

    /// Wraps an error of the system with the action that failed.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartFailure {
        let what = what.into();
        |source| StartFailure::System { what, source }
    }
}
