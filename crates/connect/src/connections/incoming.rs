//! Messages of the hub and events of the connection manager, as they reach the ids.

use cm::ConnId;
use hub::client::manager::ManagerEvent;
use wire::mad::sidr_status;

use super::passive::{self, RequestRefusal, RequestedId};
use super::{Connections, Notice, TIMED_OUT, events};
use crate::event::{EventDetails, EventKind, Param};

impl Connections {
    pub(super) fn on_session_event(&mut self, event: ManagerEvent) {
        match event {
            ManagerEvent::Mad(packet) => {
                let route = cm::MadRoute {
                    local: packet.local,
                    remote: packet.remote,
                    interface: packet.interface,
                    traffic_class: packet.traffic_class,
                };
                let now = self.now();
                self.cm.receive(now, &route, &packet.mad);
                self.settle();
            }
            ManagerEvent::Undelivered { packet, errno } => {
                let now = self.now();
                self.cm.undelivered(now, &packet.mad);
                self.unreachable_status = -errno;
                self.settle();
                self.unreachable_status = TIMED_OUT;
            }
            ManagerEvent::DevicesChanged(_) => self.on_devices_changed(),
            ManagerEvent::Renumbered(number) => self.cm.set_number(number),
            ManagerEvent::BindingLost { token } => self.on_binding_lost(token),
            ManagerEvent::HubLost | ManagerEvent::Reattached => log::info!("{event:?}"),
        }
    }

    /// Reports the ids whose device is gone, each once.
    fn on_devices_changed(&mut self) {
        let exists = |name: &str| self.session.devices().iter().any(|device| device.name == name);
        for (owner, id) in self.ids.iter_mut() {
            let is_gone = id.binding.as_ref().is_some_and(|binding| !exists(&binding.device));
            if is_gone && !std::mem::replace(&mut id.removal_told, true) {
                let event = EventDetails::new(EventKind::DeviceRemoval, Param::None);
                self.notices.push_back(Notice { owner, new_id: None, event });
            }
        }
    }

    /// While there was no hub, another process has taken a port of ours.
    fn on_binding_lost(&mut self, token: u64) {
        for (_, id) in self.ids.iter_mut().filter(|(_, id)| id.token == Some(token)) {
            log::error!("the port of {:?} went to another process while there was no hub", id.local);
            id.token = None;
        }
    }

    pub(super) fn on_cm_event(&mut self, conn: ConnId, event: &cm::CmEvent) {
        self.closing.touch(conn);
        let devices = self.session.devices();
        let requested = match event {
            cm::CmEvent::Request(request) => passive::on_request(&self.ids, devices, request),
            cm::CmEvent::SidrRequest(request) => passive::on_sidr_request(&self.ids, devices, request),
            _ => return self.on_event_of_id(conn, event),
        };
        match requested {
            Ok(requested) => self.add_requested(conn, requested),
            Err(refusal) => self.refuse(conn, refusal, matches!(event, cm::CmEvent::SidrRequest(_))),
        }
    }

    fn add_requested(&mut self, conn: ConnId, RequestedId { listener, id, param }: RequestedId) {
        let key = self.ids.add(id);
        self.ids.join(conn, key);
        self.ids.get(listener).expect("`passive` has just found it").count_request();
        let event = EventDetails::new(EventKind::ConnectRequest, param);
        self.notices.push_back(Notice { owner: listener, new_id: Some(key), event });
    }

    fn refuse(&mut self, conn: ConnId, RequestRefusal(reason): RequestRefusal, is_datagram: bool) {
        let now = self.now();
        // The request may be gone already.
        let _ = match is_datagram {
            true => self.cm.sidr_reply(now, conn, &passive::sidr_refusal(sidr_status::UNSUPPORTED, &[])),
            false => self.cm.reject(now, conn, reason, &[], &[]),
        };
        self.cm.destroy(now, conn);
    }

    fn on_event_of_id(&mut self, conn: ConnId, event: &cm::CmEvent) {
        let Some(key) = self.ids.with_conn(conn) else { return };
        let id = self.ids.get_mut(key).expect("the table is consistent");
        if let Some(details) = events::take_in(id, event, self.unreachable_status) {
            self.notify(key, details);
        }
        if let cm::CmEvent::DisconnectRequest { .. } = event {
            // The peer need not wait for the program.
            let now = self.now();
            let agreed = self.cm.disconnect(now, conn, &[]);
            agreed.unwrap_or_else(|error| log::debug!("cannot agree to a disconnect: {error}"));
        }
    }
}
