//! The devices that the hub knows, and the contexts that are open on them.

use std::io;
use std::sync::{Arc, Weak};

use hub::DeviceRecord;
use parking_lot::{Mutex, RwLock};
use transport::Mtu;
use wire::Gid;

use crate::objects::events::{AsyncEvent, AsyncEvents};
use crate::objects::info::{DeviceInfo, PortInfo, PortState};
use crate::objects::provider::Provider;

/// One opened device: its interface, and a queue for its events.
#[derive(Debug)]
pub(crate) struct DeviceContext {
    name: String,
    interface: u32,
    events: Arc<AsyncEvents>,
}

impl DeviceContext {
    pub(crate) fn interface(&self) -> u32 {
        self.interface
    }

    pub(crate) fn events(&self) -> &Arc<AsyncEvents> {
        &self.events
    }
}

/// All devices of the process.
#[derive(Debug)]
pub(crate) struct DeviceRecords {
    records: RwLock<Vec<DeviceRecord>>,
    contexts: Mutex<Vec<Weak<DeviceContext>>>,
}

impl DeviceRecords {
    pub(crate) fn new(records: Vec<DeviceRecord>) -> DeviceRecords {
        DeviceRecords { records: RwLock::new(records), contexts: Mutex::default() }
    }

    /// The devices as they are now, the preferred one first.
    pub(crate) fn list(&self) -> Vec<DeviceInfo> {
        let mut records = self.records.read().clone();
        records.sort_by_key(|record| !record.preferred);
        records.iter().map(describe).collect()
    }

    /// The device by this name, or whose interface has it; the preferred one without a name.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<DeviceInfo> {
        let records = self.records.read();
        let record = match name {
            None => hub::preferred(&records),
            Some(name) => records.iter().find(|record| record.name == name || record.interface == name),
        };
        record.map(describe)
    }

    /// Whether an address belongs to this host.
    pub(crate) fn has_address(&self, gid: Gid) -> bool {
        self.records.read().iter().any(|record| record.gids.contains(&gid))
    }

    /// Opens a context on a device.
    pub(crate) fn open(&self, info: &DeviceInfo) -> io::Result<Arc<DeviceContext>> {
        let context = Arc::new(DeviceContext {
            name: info.name.clone(),
            interface: info.interface_index,
            events: Arc::new(AsyncEvents::new()?),
        });
        let mut contexts = self.contexts.lock();
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(&context));
        Ok(context)
    }

    /// The device of a context as it is now; `None` if its interface is gone.
    pub(crate) fn of(&self, context: &DeviceContext) -> Option<DeviceInfo> {
        self.find(Some(&context.name))
    }

    /// Takes over a new list and tells the contexts what changed for them.
    pub(crate) fn replace(&self, records: Vec<DeviceRecord>) {
        let old = std::mem::replace(&mut *self.records.write(), records);
        let new = self.records.read();
        self.for_each_context(|context| {
            let of = |records: &[DeviceRecord]| records.iter().find(|r| r.name == context.name).cloned();
            for event in changes(of(&old).as_ref(), of(&new).as_ref()) {
                context.events.push(event);
            }
        });
    }

    /// Tells all contexts that nothing works any more.
    pub(crate) fn fatal(&self) {
        self.for_each_context(|context| context.events.push(AsyncEvent::DeviceFatal));
    }

    fn for_each_context(&self, mut tell: impl FnMut(&DeviceContext)) {
        for context in self.contexts.lock().iter().filter_map(Weak::upgrade) {
            tell(&context);
        }
    }
}

/// The events that a change of a record brings to the owner of a context.
fn changes(old: Option<&DeviceRecord>, new: Option<&DeviceRecord>) -> Vec<AsyncEvent> {
    let up = |record: Option<&DeviceRecord>| record.is_some_and(|r| r.link_up);
    let mut events = Vec::new();
    match (up(old), up(new)) {
        (false, true) => events.push(AsyncEvent::PortActive),
        (true, false) => events.push(AsyncEvent::PortError),
        _ => {}
    }
    if old.map(|r| &r.gids) != new.map(|r| &r.gids) {
        events.push(AsyncEvent::GidChange);
    }
    events
}

/// The record as this crate's type.
pub(crate) fn describe(record: &DeviceRecord) -> DeviceInfo {
    DeviceInfo {
        provider: Provider::Longarm,
        name: record.name.clone(),
        interface: record.interface.clone(),
        interface_index: record.interface_index,
        node_guid: record.node_guid.0,
        port_guid: record.port_guid.0,
        loopback: record.loopback,
        port: PortInfo {
            state: if record.link_up { PortState::Active } else { PortState::Down },
            max_mtu: Mtu::B4096,
            active_mtu: Mtu::fitting(record.mtu_bytes).unwrap_or(Mtu::B256),
            gids: record.gids.clone(),
            speed_mbps: record.speed_mbps,
        },
    }
}

impl PortInfo {
    /// The GIDs that exist, with their index; a hole in the table is all zeros.
    pub fn valid_gids(&self) -> impl Iterator<Item = (usize, Gid)> + '_ {
        self.gids.iter().copied().enumerate().filter(|(_, gid)| *gid != Gid::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::Guid;

    fn record(link_up: bool, gids: &[[u8; 4]]) -> DeviceRecord {
        DeviceRecord {
            name: "la_eth0".into(),
            interface: "eth0".into(),
            interface_index: 2,
            node_guid: Guid(1),
            port_guid: Guid(2),
            mtu_bytes: 1500,
            link_up,
            speed_mbps: 0,
            loopback: false,
            preferred: true,
            gids: gids.iter().map(|ip| Gid::from(std::net::IpAddr::from(*ip))).collect(),
        }
    }

    #[test]
    fn contexts_hear_what_changes_for_them() {
        let devices = DeviceRecords::new(vec![record(true, &[[10, 0, 0, 1]])]);
        let info = devices.find(Some("eth0")).unwrap();
        assert_eq!((info.name.as_str(), info.port.active_mtu), ("la_eth0", Mtu::B1024));
        let context = devices.open(&info).unwrap();
        devices.replace(vec![record(false, &[[10, 0, 0, 1]])]);
        devices.replace(vec![record(true, &[[10, 0, 0, 2]])]);
        devices.replace(vec![]);
        devices.fatal();
        let events: Vec<_> = std::iter::from_fn(|| context.events.pop()).collect();
        use AsyncEvent::{DeviceFatal, GidChange, PortActive, PortError};
        assert_eq!(events, [PortError, PortActive, GidChange, PortError, GidChange, DeviceFatal]);
        assert_eq!(devices.of(&context), None);
    }
}
