//! The requests of applications on UD queue pairs.

use faults::Rng;
use transport::{AddressVector, SendOp, UdDestination};
use wire::{QKey, Qpn};

use super::draft::Draft;
use crate::end::QKEY;
use crate::rng::pick;
use crate::scenario::Kind;
use crate::world::World;

/// In a work request: use the queue pair's own key.
const OWN_QKEY: QKey = QKey(1 << 31);

impl World {
    pub(super) fn draft_datagram(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let len = self.draw_len(e, rng, self.ends[e].spec.sizes.max_send_bytes);
        let content = self.content(e, rng, len);
        let payload = content.payload(&self.ends[e].source);
        let op = match self.ends[e].spec.mix.draw(rng) {
            Kind::SendImm => SendOp::SendImm(rng.next_u64() as u32),
            _ => SendOp::Send,
        };
        let to = rng.below(self.ends.len() as u64) as usize;
        let mut draft = Draft::new(op, payload, len);
        let mut datagram = UdDestination {
            address: self.draw_path(rng, e, to),
            remote_qpn: self.ends[to].qp.qpn(),
            remote_qkey: pick(rng, &[QKEY, QKEY, OWN_QKEY]),
        };
        if rng.chance(self.ends[e].spec.rogue) {
            spoil(rng, &mut datagram);
        } else if rng.chance(0.2) {
            datagram.address.destination = self.group();
            datagram.remote_qpn = Qpn::MULTICAST;
            draft.message = Some(content);
        } else {
            draft.message = Some(content);
            draft.only = Some(to);
        }
        Draft { datagram: Some(datagram), ..draft }
    }

    fn draw_path(&self, rng: &mut Rng, from: usize, to: usize) -> AddressVector {
        AddressVector {
            flow_label: pick(rng, &[0, 0, 0xf_ffff, 12]),
            hop_limit: pick(rng, &[1, 64, 255]),
            traffic_class: pick(rng, &[0, 0b1000_0010]),
            ..self.path(from, to)
        }
    }

    /// Messages that the application sent to `e`: to all queue pairs, or to the group that it is in.
    pub(crate) fn meant_for(&self, only: Option<usize>, e: usize) -> bool {
        match only {
            Some(only) => only == e,
            None => self.ends[e].spec.in_group,
        }
    }
}

/// Makes an address that no queue pair accepts.
fn spoil(rng: &mut Rng, datagram: &mut UdDestination) {
    match rng.chance(0.5) {
        true => datagram.remote_qkey = QKey(QKEY.0 ^ 1),
        false => datagram.remote_qpn = Qpn::new(datagram.remote_qpn.get() ^ 0x8000),
    }
}
