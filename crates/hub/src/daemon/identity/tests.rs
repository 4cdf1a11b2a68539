use super::*;
use udp::InterfaceAddress;

fn interface(index: u32, name: &str, mac: Option<[u8; 6]>, addresses: &[&str]) -> Interface {
    let address = |text: &&str| InterfaceAddress { address: text.parse().unwrap(), prefix_len: 24 };
    Interface {
        index,
        name: name.into(),
        mtu: 1500,
        up: true,
        running: true,
        loopback: name == "lo",
        multicast: true,
        mac,
        addresses: addresses.iter().map(address).collect(),
        speed_mbps: Some(10_000),
    }
}

fn lo() -> Interface {
    interface(1, "lo", Some([0; 6]), &["127.0.0.1", "::1"])
}

fn eth0() -> Interface {
    let mac = Some([0x02, 0xfc, 0, 0, 0, 1]);
    interface(4, "eth0", mac, &["fe80::fc:ff:fe00:1", "fd00::2", "192.0.2.2"])
}

fn gids(texts: &[&str]) -> Vec<Gid> {
    texts.iter().map(|text| Gid::from(text.parse::<IpAddr>().unwrap())).collect()
}

#[test]
fn each_usable_interface_is_a_device() {
    let mut down = interface(5, "eth1", None, &["192.0.2.9"]);
    down.up = false;
    let bare = interface(6, "eth2", None, &[]);
    let devices = devices("m", &[lo(), eth0(), down, bare], &[]);
    let names: Vec<_> = devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["la_lo", "la_eth0"]);
    assert!(devices.iter().all(|d| d.link_up && d.mtu_bytes == 1500 && d.speed_mbps == 10_000));
    assert!(devices[0].loopback && !devices[1].loopback);
}

#[test]
fn global_addresses_come_first() {
    let devices = devices("m", &[eth0()], &[]);
    assert_eq!(devices[0].gids, gids(&["192.0.2.2", "fd00::2", "fe80::fc:ff:fe00:1"]));
}

#[test]
fn the_preferred_device_is_one_that_others_can_reach() {
    let preferred = |interfaces: &[Interface]| {
        let devices = devices("m", interfaces, &[]);
        assert!(devices.iter().filter(|d| d.preferred).count() <= 1);
        devices.into_iter().find(|d| d.preferred).map(|d| d.name)
    };
    assert_eq!(preferred(&[lo(), eth0()]).unwrap(), "la_eth0");
    let link_local = interface(3, "veth", None, &["fe80::1"]);
    assert_eq!(preferred(&[link_local.clone(), lo(), eth0()]).unwrap(), "la_eth0");
    assert_eq!(preferred(&[link_local.clone(), lo()]).unwrap(), "la_lo");
    assert_eq!(preferred(&[link_local]).unwrap(), "la_veth");
    let mut unplugged = eth0();
    unplugged.running = false;
    assert_eq!(preferred(&[unplugged, lo()]).unwrap(), "la_lo");
    assert_eq!(preferred(&[]), None);
}

#[test]
fn guids_come_from_mac_addresses_where_there_are_some() {
    let devices = devices("m", &[lo(), eth0()], &[]);
    assert_eq!(devices[1].port_guid.to_string(), "00fc:00ff:fe00:0001");
    assert_ne!(devices[0].port_guid, devices[1].port_guid);
    assert_eq!(devices[0].node_guid, devices[1].node_guid);
    assert_eq!((devices[0].port_guid.0 >> 56) & 3, 0, "a local one");
}

#[test]
fn guids_are_the_same_in_every_run() {
    let once = devices("machine", &[lo(), eth0()], &[]);
    assert_eq!(once, devices("machine", &[lo(), eth0()], &[]));
    assert_eq!(once[0].node_guid.to_string(), NODE_GUID);
    assert_eq!(once[0].port_guid.to_string(), LO_GUID);
}

/// Computed by another implementation of the hash; every version must give the same.
const NODE_GUID: &str = "1c37:a201:1b1e:4003";
const LO_GUID: &str = "e4fa:53d7:caeb:bf95";

#[test]
fn machines_and_containers_are_told_apart() {
    let guid = |machine: &str, interfaces: &[Interface]| devices(machine, interfaces, &[])[0].node_guid;
    assert_ne!(guid("one", &[lo()]), guid("two", &[lo()]));
    let mut other = eth0();
    other.mac = Some([0x02, 0xfc, 0, 0, 0, 2]);
    assert_ne!(guid("one", &[lo(), eth0()]), guid("one", &[lo(), other]));
}

#[test]
fn a_known_device_stays_with_its_link_down() {
    let known = devices("m", &[lo(), eth0()], &[]);
    let mut gone = eth0();
    gone.up = false;
    gone.addresses.clear();
    let now = devices("m", &[lo(), gone], &known);
    assert_eq!(now.len(), 2);
    assert!(!now[1].link_up && now[1].gids.is_empty());
    let back = devices("m", &[lo(), eth0()], &now);
    assert_eq!(back, known);
    assert_eq!(devices("m", &[lo()], &known).len(), 1, "without its interface it goes");
    let mut renamed = eth0();
    renamed.name = "lan0".into();
    assert_eq!(devices("m", &[renamed], &known)[0].name, "la_lan0");
}

#[test]
fn a_gid_keeps_its_index() {
    let before = gids(&["192.0.2.1", "192.0.2.2", "fd00::1"]);
    let table = gid_table(&before, gids(&["192.0.2.9", "fd00::1", "192.0.2.1"]));
    assert_eq!(table, gids(&["192.0.2.1", "192.0.2.9", "fd00::1"]));
    let table = gid_table(&before, gids(&["fd00::1"]));
    assert_eq!(table, gids(&["::", "::", "fd00::1"]));
    assert_eq!(gid_table(&before, gids(&["192.0.2.1"])), gids(&["192.0.2.1"]));
}

#[test]
fn the_gid_table_is_bounded() {
    let many = (1..=300u32).map(|n| Gid::from(IpAddr::from((10 << 24 | n).to_be_bytes())));
    let table = gid_table(&[], many.clone().collect());
    assert_eq!(table, many.take(MAX_GIDS).collect::<Vec<_>>());
}

#[test]
fn this_machine_has_an_identity() {
    assert!(!machine().is_empty());
    assert_eq!(machine(), machine());
}
