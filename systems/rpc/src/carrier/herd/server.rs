use crate::carrier::checked::take_checked;
use crate::carrier::herd::HerdSession;
use crate::carrier::record::Look;
use crate::carrier::slot_order::SlotOrder;
use crate::frame::FrameHeader;
use crate::link::{LinkBusy, SessionLink};

/// The server's end of a session.
pub(crate) struct HerdServer {
    session: HerdSession,
    order: SlotOrder,
    pub(crate) broken: bool,
}

impl HerdServer {
    pub(crate) fn new(session: HerdSession) -> HerdServer {
        HerdServer { session, order: SlotOrder::new(session.slots), broken: false }
    }

    pub(crate) fn session(&self) -> &HerdSession {
        &self.session
    }

    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), LinkBusy> {
        link.datagram(&[&self.session.token.to_le_bytes(), &header.encode(), body])?;
        self.order.replied(header.slot);
        Ok(())
    }

    pub(crate) fn receive<L: SessionLink>(&mut self, link: &mut L, body: &mut Vec<u8>) -> Option<FrameHeader> {
        let (area, slot_bytes, broken) = (link.area(), self.session.slot_bytes, &mut self.broken);
        self.order.find(|slot| match take_checked(area, u64::from(slot) * slot_bytes, slot_bytes, body) {
            Look::Message(header) if header.slot == slot => Some(header),
            Look::Nothing => None,
            Look::Message(_) | Look::Broken => {
                *broken = true;
                None
            }
        })
    }
}
