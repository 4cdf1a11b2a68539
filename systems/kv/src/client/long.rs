//! Long values, in pieces.

use std::time::Instant;

use crate::client::session::Repeat;
use crate::client::table::KvTable;
use crate::error::KvError;
use crate::protocol::{
    BEGIN, BeginReply, BeginRequest, COMMIT, CommitRequest, PIECE, PieceRequest, PutExpiry, PutIf, PutReply, encode,
};
use crate::surroundings::piece_bytes;

impl KvTable {
    /// Sends a value piece by piece, then lets the server put it as one.
    pub(super) fn put_long(
        &mut self,
        key: &[u8],
        value: &[u8],
        (condition, expiry): (PutIf, PutExpiry),
        until: Instant,
    ) -> Result<PutReply, KvError> {
        let session = &mut self.session;
        let value_bytes = value.len() as u64;
        let begun: BeginReply = session.call(BEGIN, Repeat::IfNotExecuted, until, |grant, out| {
            encode(&BeginRequest { grant, value_bytes }, &[key], out);
        })?;
        let upload = begun.upload;
        for (number, piece) in value.chunks(piece_bytes()).enumerate() {
            let from = (number * piece_bytes()) as u64;
            let request = |grant, out: &mut Vec<u8>| encode(&PieceRequest { grant, upload, from }, &[piece], out);
            session.call_into(PIECE, Repeat::IfNotExecuted, until, request, &mut self.reply)?;
        }
        session.call(COMMIT, Repeat::IfNotExecuted, until, |grant, out| {
            encode(&CommitRequest { grant, upload, condition, expiry }, &[], out);
        })
    }
}
