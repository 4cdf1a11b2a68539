//! The purpose of a work request, in the number that its completion brings back.

/// The purpose of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamWork {
    /// Room for a message.
    Receive,
    /// Data for the peer, or an entry of one of its lists, with this many bytes in the send buffer.
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

impl StreamWork {
    pub(crate) fn encode(self) -> u64 {
        match self {
            StreamWork::Receive => RECEIVE << 32,
            StreamWork::Data(bytes) => DATA << 32 | u64::from(bytes),
            StreamWork::Control => CONTROL << 32,
            StreamWork::Disconnect => DISCONNECT << 32,
            StreamWork::Unknown => 0,
        }
    }

    pub(crate) fn decode(wr_id: u64) -> StreamWork {
        match wr_id >> 32 {
            RECEIVE => StreamWork::Receive,
            DATA => StreamWork::Data(wr_id as u32),
            CONTROL => StreamWork::Control,
            DISCONNECT => StreamWork::Disconnect,
            _ => StreamWork::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for work in [
            StreamWork::Receive,
            StreamWork::Data(u32::MAX),
            StreamWork::Data(0),
            StreamWork::Control,
            StreamWork::Disconnect,
        ] {
            assert_eq!(StreamWork::decode(work.encode()), work);
        }
        assert_eq!(StreamWork::decode(u64::MAX), StreamWork::Unknown);
    }
}
