//! Detects whether a process, or a descendant, listens for TCP or RDMA connections.

use std::collections::HashSet;
use std::fs;

use super::tree;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Whether a process in the tree below `root` listens.
pub(super) fn listens(root: u32) -> bool {
    let tree = tree::of(root);
    listens_for_tcp(root, &tree) || listens_for_rdma(&tree)
}

/// Whether one of these processes has a listening port at the hub.
fn listens_for_rdma(tree: &[u32]) -> bool {
    let Ok(status) = hub::client::status(None) else { return false };
    let theirs = status.managers.iter().filter(|manager| tree.contains(&manager.pid));
    theirs.flat_map(|manager| &manager.ports).any(|port| port.listening)
}

fn listens_for_tcp(root: u32, tree: &[u32]) -> bool {
    let listening: HashSet<u64> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{root}/net/{table}")).ok())
        .flat_map(|table| listening(&table))
        .collect();
    !listening.is_empty() && tree.iter().any(|pid| sockets(*pid).iter().any(|inode| listening.contains(inode)))
}

/// The inode numbers of the sockets that listen.
fn listening(table: &str) -> Vec<u64> {
    let inode = |line: &str| {
        let mut columns = line.split_whitespace();
        let state = columns.nth(3)?;
        let inode = columns.nth(5)?.parse().ok()?;
        (state == LISTEN).then_some(inode)
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// The inode numbers of a process's sockets.
fn sockets(pid: u32) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|fd| fs::read_link(fd.path()).ok());
    let inode = |target: std::path::PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    targets.filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:A0F2 0100007F:0016 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
";

    #[test]
    fn only_listening_sockets_count() {
        assert_eq!(listening(TABLE), [4711]);
        assert!(listening("").is_empty());
    }

    /// The listener is a child of the process that the test asks about.
    #[test]
    fn a_listener_below_a_process_is_found() {
        let python = "import socket,sys; s=socket.socket(); s.bind(('127.0.0.1',0)); sys.stdin.read(1); s.listen(); print(flush=True); sys.stdin.read()";
        let script = format!("python3 -c \"{python}\"; true");
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert!(!listens(shell.id()));
        let mut stdin = shell.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"x").unwrap();
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert!(listens(shell.id()));
        drop(stdin);
        assert!(shell.wait().unwrap().success());
        assert!(!listens(shell.id()));
    }
}
