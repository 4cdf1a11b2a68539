//! Long values, in pieces.

use std::time::Instant;

use crate::client::Repeat;
use crate::error::KvError;
use crate::protocol::{
    BEGIN, BeginReply, BeginRequest, COMMIT, CommitRequest, PIECE, PIECE_BYTES, PieceRequest, PutExpiry, PutIf,
    PutReply, encode,
};
use crate::tasks::table::AsyncKvTable;

impl AsyncKvTable {
    /// Sends a value piece by piece, then lets the server put it as one. One task does so at a time.
    pub(super) async fn put_long(
        &self,
        key: &[u8],
        value: &[u8],
        (condition, expiry): (PutIf, PutExpiry),
        until: Instant,
    ) -> Result<PutReply, KvError> {
        let _sending = self.core.sending.lock().await;
        let (repeat, value_bytes) = (Repeat::IfNotExecuted, value.len() as u64);
        let begin = |grant, out: &mut Vec<u8>| encode(&BeginRequest { grant, value_bytes }, &[key], out);
        let begun: BeginReply = self.core.call(BEGIN, repeat, until, begin).await?;
        let upload = begun.upload;
        for (number, piece) in value.chunks(PIECE_BYTES).enumerate() {
            let from = (number * PIECE_BYTES) as u64;
            let request = |grant, out: &mut Vec<u8>| encode(&PieceRequest { grant, upload, from }, &[piece], out);
            self.core.call_bytes(PIECE, repeat, until, request).await?;
        }
        let commit = |grant, out: &mut Vec<u8>| encode(&CommitRequest { grant, upload, condition, expiry }, &[], out);
        self.core.call(COMMIT, repeat, until, commit).await
    }
}
