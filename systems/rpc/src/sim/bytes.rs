//! The bytes of requests and replies, each decided by the call's number.

use fastrand::Rng;

use crate::frame::{FrameHeader, RpcKind};

/// The look of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    Random,
    Zeros,
    /// Words as those in which records begin and end.
    Headers,
}

/// A body of that length.
pub(crate) fn body_of(number: u64, filling: Filling, len_bytes: usize) -> Vec<u8> {
    match filling {
        Filling::Zeros => vec![0; len_bytes],
        Filling::Random if len_bytes <= 65_536 => {
            let mut bytes = vec![0; len_bytes];
            Rng::with_seed(number).fill(&mut bytes);
            bytes
        }
        // Quick, and different at every place of interest.
        Filling::Random => {
            let mut bytes = vec![number as u8 ^ 0xa5; len_bytes];
            for (at, page) in bytes.chunks_exact_mut(512).enumerate() {
                page[..8].copy_from_slice(&(number ^ (at as u64) << 40).to_le_bytes());
            }
            bytes
        }
        Filling::Headers => {
            let mut header = FrameHeader::bare(RpcKind::Request, (number % 4) as u16, number as u32);
            header.body_bytes = len_bytes as u32;
            header.encode().iter().copied().cycle().take(len_bytes).collect()
        }
    }
}

/// A body of a reply: another than that of any request.
pub(crate) fn reply_of(number: u64, filling: Filling, len_bytes: usize) -> Vec<u8> {
    body_of(number | 1 << 63, filling, len_bytes)
}

/// The words of an error.
pub(crate) fn words_of(number: u64, len_bytes: usize) -> String {
    format!("error of {number} ").chars().cycle().take(len_bytes).collect()
}
