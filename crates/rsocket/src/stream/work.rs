//! The purpose of a work request, in the number that its completion brings back.

/// The purpose of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Room for a message.
    Receive,
    /// Data for the peer, or an entry of one of its lists, with so many bytes in the send buffer.
    Data(u32),
    /// A control message.
    Control,
    /// The last one of them.
    Disconnect,
    /// Not a request of this crate.
    Unknown,
}

const RECEIVE: u64 = 1;
const DATA: u64 = 2;
const CONTROL: u64 = 3;
const DISCONNECT: u64 = 4;

impl Work {
    pub(crate) fn encode(self) -> u64 {
        match self {
            Work::Receive => RECEIVE << 32,
            Work::Data(bytes) => DATA << 32 | u64::from(bytes),
            Work::Control => CONTROL << 32,
            Work::Disconnect => DISCONNECT << 32,
            Work::Unknown => 0,
        }
    }

    pub(crate) fn decode(wr_id: u64) -> Work {
        match wr_id >> 32 {
            RECEIVE => Work::Receive,
            DATA => Work::Data(wr_id as u32),
            CONTROL => Work::Control,
            DISCONNECT => Work::Disconnect,
            _ => Work::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for work in [Work::Receive, Work::Data(u32::MAX), Work::Data(0), Work::Control, Work::Disconnect] {
            assert_eq!(Work::decode(work.encode()), work);
        }
        assert_eq!(Work::decode(u64::MAX), Work::Unknown);
    }
}
