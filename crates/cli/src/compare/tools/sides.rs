//! The two sides of a program: each runs on its own core and is ended when it takes too long.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::effort::ADDRESS;
use crate::baseline::core_number;

/// The longest time until a server listens.
const START: Duration = Duration::from_secs(15);
const NAP: Duration = Duration::from_millis(10);

/// A process; dropping the value ends it.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The indices of the servers' core and the clients' core among those of this process.
pub(super) const SERVER: usize = 1;
pub(super) const CLIENT: usize = 0;

/// A command that runs a program on one core.
pub(super) fn pinned(core: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core_number(core).to_string(), program]);
    command
}

/// A TCP port that is free at the moment.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((ADDRESS, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}

/// Starts a server and waits until it listens at a TCP port.
pub(crate) fn serve(command: &mut Command, port: u16) -> Result<Process, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut server = Process(child.map_err(|e| unable(command, &e))?);
    let start = Instant::now();
    while start.elapsed() < START {
        if listens(port) {
            return Ok(server);
        }
        if let Ok(Some(status)) = server.0.try_wait() {
            return Err(format!("the server, {}, ended at once: {status}", line(command)));
        }
        thread::sleep(NAP);
    }
    Err(format!("the server, {}, does not listen", line(command)))
}

/// Runs a client to its end and returns its output; fails if it takes longer than `patience`.
pub(crate) fn ask(command: &mut Command, patience: Duration) -> Result<String, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut client = Process(child.map_err(|e| unable(command, &e))?);
    let (said, complained) = (reader(client.0.stdout.take()), reader(client.0.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match client.0.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if start.elapsed() > patience => return Err(format!("{} takes too long", line(command))),
            None => thread::sleep(NAP),
        }
    };
    let text = said.join().unwrap_or_default();
    if status.success() {
        return Ok(text);
    }
    let complaint = complained.join().unwrap_or_default();
    Err(format!("{} failed ({status}) and said: {}", line(command), last_lines(&text, &complaint)))
}

/// The last lines of a program's standard output and error output.
fn last_lines(said: &str, complaint: &str) -> String {
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
    let words: Vec<String> = [last(complaint), last(said)].into_iter().flatten().collect();
    if words.is_empty() { "nothing".into() } else { words.join("; ") }
}

/// Reads a pipe to its end in a new thread.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The command as a user would type it, without the pinning.
fn line(command: &Command) -> String {
    let mut words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    if command.get_program() == "taskset" {
        words.drain(..2.min(words.len()));
    }
    let words: Vec<&str> = words.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
    format!("`{}`", words.join(" "))
}

fn unable(command: &Command, error: &std::io::Error) -> String {
    format!("{}: {error}", command.get_program().to_string_lossy())
}

/// Whether a process in this network namespace listens at a TCP port.
fn listens(port: u16) -> bool {
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .any(|file| is_listening(&std::fs::read_to_string(file).unwrap_or_default(), port))
}

/// Whether the kernel's table has a listener: number, local address, remote address, state (0A is LISTEN).
fn is_listening(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(words[..], [_, local, _, "0A"] if local.ends_with(&end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_shows_who_listens() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     0: 0100007F:4A43 00000000:0000 0A 00000000:00000000 00\n\
                     1: 0100007F:4A44 0100007F:0016 01 00000000:00000000 00\n";
        assert!(is_listening(table, 0x4a43));
        assert!(!is_listening(table, 0x4a44) && !is_listening(table, 22));
    }

    #[test]
    fn a_client_is_heard_and_its_failure_explained() {
        let mut echo = Command::new("sh");
        assert_eq!(ask(echo.args(["-c", "echo 42"]), START).unwrap(), "42\n");
        let mut fails = Command::new("sh");
        let why = ask(fails.args(["-c", "echo heading; echo no device >&2; exit 3"]), START).unwrap_err();
        assert!(why.ends_with("failed (exit status: 3) and said: no device; heading"), "{why}");
        let mut stays = Command::new("sleep");
        assert!(ask(stays.arg("100"), NAP).unwrap_err().contains("takes too long"));
        assert!(ask(&mut Command::new("no-such-program"), START).unwrap_err().contains("no-such-program"));
    }
}
