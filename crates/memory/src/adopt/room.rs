//! Checks that the control groups of this process have room for memory that exists twice for a moment.
//!
//! If a group exceeds its limit, the kernel kills one of its processes. With a network card the program would
//! have stayed below.

use std::fs;
use std::path::{Path, PathBuf};

/// Smaller amounts are not checked: the library itself allocates as much from time to time.
const LITTLE_BYTES: usize = 256 << 10;
/// Bytes that must stay free beside the requested ones, for all other allocations.
const MARGIN_BYTES: u64 = 2 << 20;

/// A version of the control group hierarchy, with its file names.
struct Hierarchy {
    /// The usual mount point.
    mounted: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat` that count file pages, which the kernel can drop.
    droppable: [&'static str; 2],
}

const VERSION_2: Hierarchy = Hierarchy {
    mounted: "/sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    droppable: ["inactive_file ", "active_file "],
};
const VERSION_1: Hierarchy = Hierarchy {
    mounted: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    droppable: ["total_inactive_file ", "total_active_file "],
};

/// True if this many bytes fit into every control group of this process, or nothing is known of the groups.
pub(super) fn is_there(bytes: usize) -> bool {
    if bytes < LITTLE_BYTES {
        return true;
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().all(|line| fits_in_line(line, bytes as u64 + MARGIN_BYTES))
}

/// Checks one line of `/proc/self/cgroup`: `number:controllers:path`.
fn fits_in_line(line: &str, bytes: u64) -> bool {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return true };
    let hierarchy = match controllers {
        "" => &VERSION_2,
        controllers if controllers.split(',').any(|one| one == "memory") => &VERSION_1,
        _ => return true,
    };
    hierarchy.groups(path).iter().all(|group| hierarchy.fits(group, bytes))
}

impl Hierarchy {
    /// The group and its ancestors. In a container the path may be that of the host; then the mount point is
    /// the group.
    fn groups(&self, path: &str) -> Vec<PathBuf> {
        let mounted = Path::new(self.mounted);
        let own = mounted.join(path.trim_start_matches('/'));
        own.ancestors().take_while(|group| group.starts_with(mounted)).map(Path::to_owned).collect()
    }

    fn fits(&self, group: &Path, bytes: u64) -> bool {
        let (Some(limit), Some(usage)) = (number(&group.join(self.limit)), number(&group.join(self.usage))) else {
            return true;
        };
        usage.saturating_add(bytes) <= limit
            || usage.saturating_add(bytes) <= limit.saturating_add(self.droppable(group))
    }

    fn droppable(&self, group: &Path) -> u64 {
        let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let values = self.droppable.iter().filter_map(|name| text.lines().find_map(|line| line.strip_prefix(name)));
        values.filter_map(|value| value.trim().parse::<u64>().ok()).sum()
    }
}

/// The number in a file; `None` if there is no file or it says `max`.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_knows_of_other_controllers() {
        for line in ["", "1:cpu:/a", "nonsense", "4:cpuset,cpu:/", "3:memory"] {
            assert!(fits_in_line(line, u64::MAX / 2), "{line}");
        }
    }

    #[test]
    fn a_group_has_room_up_to_its_limit_and_what_can_be_dropped() {
        let group = std::env::temp_dir().join(format!("longarm-room-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        let write = |name: &str, text: &str| fs::write(group.join(name), text).unwrap();
        assert!(VERSION_2.fits(&group, u64::MAX), "no limit is known");
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        assert!(VERSION_2.fits(&group, 1000), "there is none");
        write("memory.max", "1000\n");
        assert!(VERSION_2.fits(&group, 100) && !VERSION_2.fits(&group, 101));
        write("memory.stat", "anon 5\ninactive_file 20\nactive_file 30\n");
        assert!(VERSION_2.fits(&group, 150) && !VERSION_2.fits(&group, 151));
        fs::remove_dir_all(&group).unwrap();
    }

    #[test]
    fn groups_lie_in_groups() {
        let found = VERSION_1.groups("/a/b");
        let expected = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
