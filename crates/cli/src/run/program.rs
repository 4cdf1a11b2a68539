//! Finds the file of a command, and checks whether it can run with Longarm's library.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::error::StartFailure;

/// The longest first line of a script that is read.
const MAX_LINE_BYTES: usize = 256;

/// Finds a command's file like a shell.
///
/// # Errors
/// [`StartFailure::NotFound`], [`StartFailure::NotExecutable`], and [`StartFailure::Privileged`] for a
/// program that gets additional rights: the loader ignores the environment of such programs.
pub(crate) fn resolve(command: &OsStr) -> Result<PathBuf, StartFailure> {
    let name = || command.to_string_lossy().into_owned();
    let path = find(command).map_err(|near| match near {
        Some(path) => StartFailure::NotExecutable { path, reason: "it is not marked as executable".into() },
        None => StartFailure::NotFound { name: name(), hint: String::new() },
    })?;
    if path.is_dir() {
        return Err(StartFailure::NotExecutable { path, reason: "it is a directory".into() });
    }
    match privilege(&path) {
        Some(reason) => Err(StartFailure::Privileged { path, reason }),
        None => Ok(path),
    }
}

/// The executable file; the error holds a file of that name that is not executable, if there is one.
fn find(command: &OsStr) -> Result<PathBuf, Option<PathBuf>> {
    let path = Path::new(command);
    if command.as_encoded_bytes().contains(&b'/') {
        return match (path.exists(), is_executable(path)) {
            (false, _) => Err(None),
            (true, false) => Err(Some(path.into())),
            (true, true) => Ok(path.into()),
        };
    }
    let dirs = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let files: Vec<PathBuf> = env::split_paths(&dirs).map(|dir| dir.join(path)).filter(|file| file.is_file()).collect();
    let executable = files.iter().find(|file| is_executable(file)).cloned();
    executable.ok_or_else(|| files.first().cloned())
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// The reason why the program would run with other rights than this process, if there is one.
fn privilege(path: &Path) -> Option<&'static str> {
    let metadata = fs::metadata(path).ok()?;
    let mode = metadata.permissions().mode();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if mode & 0o4000 != 0 && metadata.uid() != uid {
        return Some("set-user-ID");
    }
    if mode & 0o2000 != 0 && metadata.gid() != gid {
        return Some("set-group-ID");
    }
    let mut none: [u8; 0] = [];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut none);
    (uid != 0 && capabilities.is_ok_and(|len| len > 0)).then_some("file capabilities")
}

/// Whether a program is Python or a script of it.
pub(super) fn runs_python(path: &Path) -> bool {
    is_python(path) || first_line(path).is_some_and(|words| words.iter().any(|word| is_python(Path::new(word))))
}

/// Whether a file is named like an interpreter or its directory: `python3.11`.
pub(super) fn is_python(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"))
}

/// The interpreter of a script, from its first line `#!/path argument`.
pub(crate) fn interpreter(path: &Path) -> Option<PathBuf> {
    first_line(path)?.first().map(PathBuf::from)
}

/// The words of a script's first line, after `#!`.
fn first_line(path: &Path) -> Option<Vec<String>> {
    let mut file = fs::File::open(path).ok()?;
    let mut bytes = [0; MAX_LINE_BYTES];
    let len = std::io::Read::read(&mut file, &mut bytes).ok()?;
    let line = bytes[..len].strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_shell_does() {
        assert!(resolve(OsStr::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(resolve(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert!(matches!(resolve(OsStr::new("no-such-program")), Err(StartFailure::NotFound { .. })));
        assert!(matches!(resolve(OsStr::new("/no/such/program")), Err(StartFailure::NotFound { .. })));
        assert!(matches!(resolve(OsStr::new("/etc/passwd")), Err(StartFailure::NotExecutable { .. })));
        assert!(matches!(resolve(OsStr::new("/etc")), Err(StartFailure::NotExecutable { .. })));
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let path = env::temp_dir().join(format!("longarm-script-{}", std::process::id()));
        for (text, expected) in [
            ("#!/bin/sh -e\necho\n", Some("/bin/sh")),
            ("#! /usr/bin/env python3", Some("/usr/bin/env")),
            ("echo\n", None),
            ("#!\n", None),
            ("", None),
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(interpreter(&path), expected.map(PathBuf::from), "{text:?}");
            assert_eq!(runs_python(&path), text.contains("python"), "{text:?}");
        }
        fs::remove_file(&path).unwrap();
    }
}
