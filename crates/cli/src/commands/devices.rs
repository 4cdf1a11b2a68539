//! `longarm devices`

use clap::Args;
use comfy_table::{Table, presets};
use device::{DeviceInfo, Gid, PortState};
use provider::Device;

use crate::error::Error;

/// List the devices: Longarm's own, one for each network interface that can carry RoCEv2, and those of the system
#[derive(Args, Debug)]
pub(crate) struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `longarm devices`
pub(crate) fn devices(args: &DevicesArgs) -> Result<(), Error> {
    let devices = Device::list_all()?;
    if args.json {
        let list: Vec<_> = devices.iter().map(to_json).collect();
        println!("{}", serde_json::Value::from(list));
    } else {
        println!("{}", table(&devices));
    }
    Ok(())
}

fn table(devices: &[DeviceInfo]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["provider", "device", "interface", "port", "MTU", "speed", "GUID", "GIDs (index: address)"]);
    for device in devices {
        table.add_row([
            device.provider.to_string(),
            device.name.clone(),
            device.interface.clone(),
            state(device).to_string(),
            device.port.active_mtu.bytes().to_string(),
            speed(device.port.speed_mbps),
            format!("{:016x}", device.port_guid),
            gids(device).map(|(index, ip)| format!("{index}: {ip}")).collect::<Vec<_>>().join("\n"),
        ]);
    }
    table
}

fn state(device: &DeviceInfo) -> &'static str {
    match device.port.state {
        PortState::Active => "active",
        PortState::Down => "down",
    }
}

fn speed(mbps: u32) -> String {
    match mbps {
        0 => "unknown".into(),
        m if m >= 1000 => format!("{} Gb/s", f64::from(m) / 1e3),
        m => format!("{m} Mb/s"),
    }
}

/// The used entries of the GID table.
fn gids(device: &DeviceInfo) -> impl Iterator<Item = (usize, std::net::IpAddr)> + '_ {
    device.port.gids.iter().enumerate().filter(|(_, gid)| **gid != Gid::default()).map(|(index, gid)| (index, gid.ip()))
}

fn to_json(device: &DeviceInfo) -> serde_json::Value {
    serde_json::json!({
        "provider": device.provider.to_string(),
        "name": device.name,
        "interface": device.interface,
        "interface_index": device.interface_index,
        "node_guid": format!("{:016x}", device.node_guid),
        "port_guid": format!("{:016x}", device.port_guid),
        "loopback": device.loopback,
        "state": state(device),
        "active_mtu_bytes": device.port.active_mtu.bytes(),
        "speed_mbps": device.port.speed_mbps,
        "gids": gids(device).map(|(index, ip)| serde_json::json!({ "index": index, "address": ip })).collect::<Vec<_>>(),
    })
}
