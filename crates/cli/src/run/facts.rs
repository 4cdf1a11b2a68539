//! Facts about this machine's network cards, for the files of the devices.

use std::fs;
use std::path::{Path, PathBuf};

use hub::DeviceRecord;

use crate::sysfs::{DeviceFacts, DeviceLocation};

const INTERFACES: &str = "/sys/class/net";

/// The devices, numbered in order, with their locations in the machine.
pub(super) fn describe<'a>(devices: &[&'a DeviceRecord]) -> Vec<DeviceFacts<'a>> {
    let describe = |(number, record): (usize, &&'a DeviceRecord)| DeviceFacts {
        record,
        number,
        place: place(&Path::new(INTERFACES).join(&record.interface).join("device")),
    };
    devices.iter().enumerate().map(describe).collect()
}

/// The location of a network card, from its directory or, as with virtio, the parent directory.
fn place(card: &Path) -> DeviceLocation {
    let Ok(card) = fs::canonicalize(card) else { return DeviceLocation::NOWHERE };
    let dirs: Vec<PathBuf> =
        [Some(card.as_path()), card.parent()].into_iter().flatten().map(Path::to_path_buf).collect();
    let read = |name: &str| dirs.iter().find_map(|dir| fs::read_to_string(dir.join(name)).ok());
    DeviceLocation {
        numa_node: read("numa_node").and_then(|text| text.trim().parse().ok()).unwrap_or(-1),
        local_cpus: read("local_cpus").map(|text| text.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_where_it_or_its_parent_says() {
        let root = std::env::temp_dir().join(format!("longarm-place-{}", std::process::id()));
        let card = root.join("pci/virtio0");
        fs::create_dir_all(&card).unwrap();
        fs::write(root.join("pci/numa_node"), "1\n").unwrap();
        fs::write(card.join("local_cpus"), "0f\n").unwrap();
        assert_eq!(place(&card), DeviceLocation { numa_node: 1, local_cpus: Some("0f".into()) });
        assert_eq!(place(&root.join("none")), DeviceLocation::NOWHERE);
        fs::remove_dir_all(&root).unwrap();
    }
}
