use super::*;
use ::device::Gid;
use hub::record::Guid;
use std::net::IpAddr;
use std::path::Path;

/// The expected tree of [`machine`], without the unused GIDs.
const GOLDEN: &str = include_str!("golden.txt");

fn record(name: &str) -> DeviceRecord {
    DeviceRecord {
        name: format!("la_{name}"),
        interface: name.into(),
        interface_index: 4,
        node_guid: Guid(0xfedc_ba98_7654_3210),
        port_guid: Guid(1),
        mtu_bytes: 1500,
        link_up: true,
        speed_mbps: 25_000,
        loopback: false,
        preferred: false,
        gids: vec![Gid::from(IpAddr::from([192, 0, 2, 1])), Gid::default(), Gid::from(ip("fe80::1"))],
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A device with a NUMA node, and one whose link is down.
fn machine() -> Tree {
    let near = DeviceLocation { numa_node: 1, local_cpus: Some("ff00".into()) };
    let (eth0, eth1) = (record("eth0"), DeviceRecord { link_up: false, speed_mbps: 0, gids: vec![], ..record("eth1") });
    class_tree(&[
        DeviceFacts { record: &eth0, number: 0, place: near },
        DeviceFacts { record: &eth1, number: 3, place: DeviceLocation::NOWHERE },
    ])
}

fn is_unused_gid(line: &&str) -> bool {
    line.contains("/gids/") && line.ends_with("= 0000:0000:0000:0000:0000:0000:0000:0000")
}

/// `UPDATE_GOLDEN=1` rewrites the file.
#[test]
fn the_tree_is_as_agreed() {
    let text = machine().to_text();
    // The version changes with each release.
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let lines: String = text.lines().filter(|line| !is_unused_gid(line)).map(|line| format!("{line}\n")).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sysfs/golden.txt");
        std::fs::write(path, &lines).unwrap();
    }
    let difference = lines.lines().zip(GOLDEN.lines()).find(|(now, agreed)| now != agreed);
    assert_eq!(difference, None, "the tree has changed");
    assert_eq!(lines.lines().count(), GOLDEN.lines().count());
}

#[test]
fn the_gid_table_has_all_its_entries() {
    let text = machine().to_text();
    assert_eq!(text.lines().filter(is_unused_gid).count(), 2 * port::GID_TABLE_LEN - 2);
    assert!(!text.contains("types/1 "), "an unused entry has no type");
}

#[test]
fn no_devices_are_an_empty_directory() {
    assert_eq!(class_tree(&[]).to_text(), "infiniband/\ninfiniband_verbs/abi_version = 6\n");
}

#[test]
fn on_disk_it_reads_like_sysfs() {
    let dir = std::env::temp_dir().join(format!("longarm-sysfs-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    machine().write(&dir).unwrap();
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).unwrap();
    assert_eq!(read("infiniband/la_eth0/ports/1/state"), "4: ACTIVE\n");
    assert_eq!(read("infiniband/la_eth0/ports/1/gids/0"), "0000:0000:0000:0000:0000:ffff:c000:0201\n");
    assert_eq!(read("infiniband_verbs/uverbs3/device/numa_node"), "-1\n");
    assert_eq!(read("infiniband/la_eth0/device/infiniband/la_eth0/node_type"), "1: CA\n");
    std::fs::remove_dir_all(&dir).unwrap();
}
