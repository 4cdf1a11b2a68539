use crate::carrier::checked::put_checked;
use crate::carrier::fetch::{ASKED_BYTES, FetchSession, asked_word};
use crate::carrier::record::{Look, take_record, write_record};
use crate::carrier::slot_order::SlotOrder;
use crate::frame::FrameHeader;
use crate::link::{LinkBusy, PeerArea, SessionLink};

/// The server's end of a session.
pub(crate) struct FetchServer {
    session: FetchSession,
    order: SlotOrder,
    /// The record of the reply that is being stored.
    record: Vec<u8>,
    pub(crate) broken: bool,
}

impl FetchServer {
    pub(crate) fn new(session: FetchSession) -> FetchServer {
        FetchServer { session, order: SlotOrder::new(session.slots), record: Vec::new(), broken: false }
    }

    pub(crate) fn session(&self) -> &FetchSession {
        &self.session
    }

    /// Stores a reply, or sends it if the client has asked for that.
    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
    ) -> Result<(), LinkBusy> {
        let at = self.session.reply_at(header.slot);
        if link.area().load(self.session.request_at(header.slot)) == asked_word(header.number) {
            write_record(link, at, header, body)?;
        } else {
            let Some(area) = link.read_area() else {
                self.broken = true;
                return Err(LinkBusy);
            };
            put_checked(header, body, &mut self.record);
            area.copy_in(at, &self.record);
        }
        self.order.replied(header.slot);
        Ok(())
    }

    pub(crate) fn receive<L: SessionLink>(&mut self, link: &mut L, body: &mut Vec<u8>) -> Option<FrameHeader> {
        let (area, session, broken) = (link.area(), self.session, &mut self.broken);
        let room_bytes = session.request_slot_bytes - ASKED_BYTES;
        self.order.find(|slot| match take_record(area, session.request_at(slot) + ASKED_BYTES, room_bytes, body) {
            Look::Message(header) if header.slot == slot => Some(header),
            Look::Nothing => None,
            Look::Message(_) | Look::Broken => {
                *broken = true;
                None
            }
        })
    }
}
