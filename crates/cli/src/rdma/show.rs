//! The answers, in iproute2's format.

use std::env;

use device::{DeviceInfo, PortState};
use serde_json::{Value, json};

use super::request::{QueryObject, RdmaQuery};
use crate::run::DEVICES_VARIABLE;

/// The devices that programs in this environment see.
pub(super) fn visible(devices: Vec<DeviceInfo>) -> Vec<DeviceInfo> {
    let Ok(names) = env::var(DEVICES_VARIABLE) else { return devices };
    let wanted: Vec<&str> = names.split(',').map(str::trim).collect();
    let place = |device: &DeviceInfo| wanted.iter().position(|name| device.name == *name || device.interface == *name);
    let mut visible: Vec<DeviceInfo> = devices.into_iter().filter(|device| place(device).is_some()).collect();
    visible.sort_by_key(place);
    visible
}

pub(super) fn system(request: &RdmaQuery) -> String {
    match request.json {
        true => text(&json!([{ "netns": "shared", "copy-on-fork": "on" }]), request),
        false => "netns shared copy-on-fork on".into(),
    }
}

/// One line for each device, or one JSON array.
pub(super) fn devices(request: &RdmaQuery, devices: &[(usize, &DeviceInfo)]) -> String {
    let is_link = request.object == QueryObject::Link;
    if request.json {
        let to_json = if is_link { link_json } else { device_json };
        let all: Vec<Value> = devices.iter().map(|(index, device)| to_json(*index, device)).collect();
        return text(&all.into(), request);
    }
    let to_line = if is_link { link_line } else { device_line };
    devices.iter().map(|(index, device)| to_line(*index, device)).collect::<Vec<_>>().join("\n")
}

fn text(value: &Value, request: &RdmaQuery) -> String {
    if request.pretty { format!("{value:#}") } else { value.to_string() }
}

fn states(device: &DeviceInfo) -> (&'static str, &'static str) {
    match device.port.state {
        PortState::Active => ("ACTIVE", "LINK_UP"),
        PortState::Down => ("DOWN", "DISABLED"),
    }
}

fn link_json(index: usize, device: &DeviceInfo) -> Value {
    let (state, physical_state) = states(device);
    json!({
        "ifindex": index,
        "ifname": device.name,
        "port": 1,
        "state": state,
        "physical_state": physical_state,
        "netdev": device.interface,
        "netdev_index": device.interface_index,
    })
}

fn link_line(_: usize, device: &DeviceInfo) -> String {
    let (state, physical_state) = states(device);
    let DeviceInfo { name, interface, .. } = device;
    format!("link {name}/1 state {state} physical_state {physical_state} netdev {interface} ")
}

const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

fn device_json(index: usize, device: &DeviceInfo) -> Value {
    json!({
        "ifindex": index,
        "ifname": device.name,
        "node_type": "ca",
        "fw": FIRMWARE,
        "node_guid": guid(device.node_guid),
        "sys_image_guid": guid(device.node_guid),
    })
}

fn device_line(index: usize, device: &DeviceInfo) -> String {
    let guid = guid(device.node_guid);
    format!("{index}: {}: node_type ca fw {FIRMWARE} node_guid {guid} sys_image_guid {guid} ", device.name)
}

/// A GUID as four groups of four digits.
fn guid(guid: u64) -> String {
    let group = |shift: u32| format!("{:04x}", guid >> shift & 0xffff);
    [48, 32, 16, 0].map(group).join(":")
}
