//! The holders of a UDP port, from the tables in `/proc/net`.

use std::fmt;
use std::fs;

/// One user's sockets on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user who opened the socket.
    pub uid: u32,
    /// The socket's inode; 0 for sockets of the kernel itself.
    pub inode: u64,
    /// Number and name of a process that has the socket open, if such a process is visible.
    pub process: Option<(u32, String)>,
}

impl Holder {
    /// True if the socket belongs to the kernel itself, for example to its software RoCE driver.
    pub fn is_kernel(&self) -> bool {
        self.inode == 0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            _ if self.is_kernel() => f.write_str("the kernel itself"),
            Some((pid, name)) => write!(f, "process {pid} ({name}) of user {}", self.uid),
            None => write!(f, "a process of user {}", self.uid),
        }
    }
}

/// The holders of a UDP port in this thread's network namespace, one for each user and
/// process. Empty if the tables cannot be read.
pub(super) fn holders(port: u16) -> Vec<Holder> {
    let sockets = all_sockets(port);
    let mut holders: Vec<Holder> = Vec::new();
    let processes = processes_of(&sockets);
    for ((uid, inode), process) in sockets.into_iter().zip(processes) {
        let known = |h: &Holder| h.uid == uid && h.process == process && (h.inode == 0) == (inode == 0);
        if !holders.iter().any(known) {
            holders.push(Holder { uid, inode, process });
        }
    }
    holders
}

/// The inode numbers of all sockets on UDP port 4791 in this thread's network namespace, of all users. Empty
/// if the tables cannot be read.
pub fn sockets_on_port() -> Vec<u64> {
    all_sockets(wire::ROCE_PORT).into_iter().map(|(_, inode)| inode).collect()
}

/// The other processes with an open socket on UDP port 4791 of this thread's network namespace. Only
/// processes whose descriptors are visible are found.
pub fn other_processes_on_port() -> Vec<(u32, String)> {
    let sockets = sockets_on_port();
    let holds = |pid: &u32| *pid != std::process::id() && socket_inodes(*pid).any(|inode| sockets.contains(&inode));
    processes().filter(holds).map(|pid| (pid, name_of(pid))).collect()
}

/// User and inode of each socket on `port` in this thread's network namespace.
fn all_sockets(port: u16) -> Vec<(u32, u64)> {
    let tables = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    tables.iter().flat_map(|path| sockets(&read(path), port)).collect()
}

/// User and inode of each socket on `port` in the text of a `/proc/net/udp` table.
fn sockets(table: &str, port: u16) -> Vec<(u32, u64)> {
    table.lines().skip(1).filter_map(|line| socket_on(line, port)).collect()
}

/// Columns: `sl local_address rem_address st queues tr:when retransmits uid timeout inode …`.
fn socket_on(line: &str, port: u16) -> Option<(u32, u64)> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local_port) = columns.get(1)?.rsplit_once(':')?;
    if u16::from_str_radix(local_port, 16).ok()? != port {
        return None;
    }
    Some((columns.get(7)?.parse().ok()?, columns.get(9)?.parse().ok()?))
}

/// For each socket one process that has it open, found through `/proc/PID/fd` of the processes whose
/// descriptors are visible.
fn processes_of(sockets: &[(u32, u64)]) -> Vec<Option<(u32, String)>> {
    let mut found = vec![None; sockets.len()];
    for pid in processes() {
        for inode in socket_inodes(pid) {
            for (place, _) in found.iter_mut().zip(sockets).filter(|(place, s)| place.is_none() && s.1 == inode) {
                *place = Some((pid, name_of(pid)));
            }
        }
    }
    found
}

fn processes() -> impl Iterator<Item = u32> {
    let numbered = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(numbered)
}

/// The inodes of the sockets that a process has open.
fn socket_inodes(pid: u32) -> impl Iterator<Item = u64> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| {
        let target = fs::read_link(link.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  287: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 74187 2 0000000000000000 0
  288: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0000000000000000 0
  301: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 0
";

    #[test]
    fn tables_are_read_by_port() {
        assert_eq!(sockets(TABLE, 4791), [(1000, 74187), (0, 0)]);
        assert_eq!(sockets(TABLE, 0x44), [(0, 9)]);
        assert_eq!(sockets(TABLE, 1), []);
    }

    #[test]
    fn broken_lines_are_left_out() {
        let table = "header\n: : :\n287: 00000000:12B7\n287: 0:12B7 0 0 0 0 0 x 0 y\n\n";
        assert_eq!(sockets(table, 4791), []);
    }

    #[test]
    fn own_sockets_are_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = holders(port);
        assert!(!found[0].is_kernel());
        let (pid, _) = found[0].process.clone().expect("own descriptors can be seen");
        assert_eq!(pid, std::process::id());
    }

    #[test]
    fn the_sockets_of_a_group_are_those_on_the_port() {
        crate::testing::in_new_netns(|| {
            assert_eq!(sockets_on_port(), []);
            let group = crate::PortGroup::bind(3).unwrap();
            let inode = |fd: std::os::fd::BorrowedFd<'_>| {
                let file = fs::File::from(fd.try_clone_to_owned().unwrap());
                std::os::linux::fs::MetadataExt::st_ino(&file.metadata().unwrap())
            };
            let mut ours: Vec<u64> = group.descriptors().map(inode).collect();
            let mut found = sockets_on_port();
            ours.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, ours);
        });
    }
}
