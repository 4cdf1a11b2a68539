//! An end for tests that hang. Cargo runs each test binary below a guard. When a binary runs for too long, the guard
//! prints where its processes stand, kills them, and fails. The other binaries run all the same.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::run::{exists, root};

/// The longest binaries take some three minutes, and ten on a busy machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);
const PAUSE: Duration = Duration::from_millis(10);

/// The argument that lets cargo run all tests below a guard. The guard is a copy of this program: a build of the workspace replaces the
/// program itself.
pub(crate) fn cargo_config() -> Result<String, String> {
    let copy = root().join("target/guard");
    let failed = |error: std::io::Error| format!("cannot copy xtask to {}: {error}", copy.display());
    // A copy that a test still runs cannot be written to.
    fs::remove_file(&copy).or_else(|error| if copy.exists() { Err(error) } else { Ok(()) }).map_err(failed)?;
    fs::copy("/proc/self/exe", &copy).map_err(failed)?;
    Ok(format!("target.'cfg(unix)'.runner=['{}', 'guard']", copy.display()))
}

/// Runs a test binary. Returns the code with which a shell would tell how it ended.
pub(crate) fn guard(program: &str, args: &[&str]) -> Result<u8, String> {
    guard_for(LIMIT, Command::new(program).args(args)).map(code)
}

fn code(status: ExitStatus) -> u8 {
    let signalled = status.signal().map(|signal| 128 + signal);
    status.code().or(signalled).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn guard_for(limit: Duration, command: &mut Command) -> Result<ExitStatus, String> {
    let mut child = command.spawn().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    let since = Instant::now();
    while since.elapsed() < limit {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status);
        }
        std::thread::sleep(PAUSE);
    }
    end(&mut child);
    Err(format!("{command:?} did not end within {} s", limit.as_secs()))
}

/// Tells where a process and those below it stand, and kills them.
fn end(child: &mut Child) {
    let family = family_of(child.id(), &parents());
    family.iter().for_each(|id| report(*id));
    let ids = family.iter().map(u32::to_string);
    // A process that has ended meanwhile is none to kill.
    let _ = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
    let _ = child.wait();
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, parent_of(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?))).collect()
}

/// The parent in a line of `/proc/ID/stat` (man 5 proc): the second word behind the name, which may have spaces itself.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// A process and all below it, each behind its parent.
fn family_of(id: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut family = vec![id];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(id, _)| *id));
        next += 1;
    }
    family
}

/// Prints the threads of a process, with their stacks if gdb is there.
fn report(id: u32) {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default().replace('\0', " ").trim().to_owned();
    let process = Path::new("/proc").join(id.to_string());
    eprintln!("\n== process {id}: {}", read(&process.join("cmdline")));
    for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
        let of = |file: &str| read(&thread.path().join(file));
        eprintln!("thread {:?} waits in {}, system call {}", of("comm"), of("wchan"), of("syscall"));
    }
    if exists("gdb") {
        let all = ["--batch", "-ex", "thread apply all backtrace 30", "-p", &id.to_string()];
        let _ = Command::new("gdb").args(all).stdin(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_end_is_handed_on() {
        let of = |script: &str| guard("sh", &["-c", script]);
        assert_eq!((of("exit 0"), of("exit 7"), of("kill -TERM $$")), (Ok(0), Ok(7), Ok(128 + 15)));
        assert!(guard("/no/such/program", &[]).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("ids");
        let script = format!("sleep 1000 & echo $$ $! > {}; wait", note.display());
        let ended = guard_for(Duration::from_millis(500), Command::new("sh").args(["-c", &script]));
        assert!(ended.unwrap_err().contains("did not end"));
        let ids = fs::read_to_string(note).unwrap();
        assert_eq!(ids.split_whitespace().count(), 2);
        for id in ids.split_whitespace() {
            // A killed process needs a processor once more before it is gone.
            let is_gone = || {
                let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
            };
            let began = Instant::now();
            while !is_gone() {
                assert!(began.elapsed() < Duration::from_secs(60), "{id} goes on");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    #[test]
    fn families_have_their_grandchildren() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 3)]);
        assert_eq!(family_of(2, &parents), [2, 3, 4, 6]);
        assert_eq!(parent_of("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of("broken"), None);
    }
}
