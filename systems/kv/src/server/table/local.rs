//! Operations of a table's writer that callers in the server's process need beside those of clients.

use std::hint::black_box;

use longarm_rpc::Status;

use super::{TableWriter, broken, status_of, tick};
use crate::envelope::{ENVELOPE_BYTES, Envelope, KvVersion};
use crate::server::directory::tag_of;
use crate::server::figures::count;

/// Keys that one look ahead takes together: as many as a processor's open reads, about.
const AHEAD: usize = 16;

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHead {
    /// The version of its value.
    pub version: KvVersion,
    /// Bytes of its value.
    pub value_bytes: u64,
    /// In the server's clock; zero for never.
    pub expires_ns: u64,
}

impl TableWriter {
    /// Keys that expire.
    pub(crate) fn expiring_keys(&self) -> u64 {
        self.expiries.len() as u64
    }

    /// Fetches what operations on these keys will read first, for all of them at a time.
    pub(crate) fn look_ahead<'a>(&self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        let mut tags = [0; AHEAD];
        let mut rest = keys;
        loop {
            let (some, mut count) = (rest.clone().take(AHEAD), 0);
            for key in some.clone() {
                tags[count] = tag_of(self.directory.seed(), key);
                count += 1;
            }
            if count == 0 {
                return;
            }
            let bits = some.fold(0, |bits, key| bits ^ self.owner.look_ahead(key));
            black_box((self.directory.look_ahead(&tags[..count]), bits));
            if count < AHEAD {
                return;
            }
            rest.nth(AHEAD - 1);
        }
    }

    /// The state of a key, without its value.
    pub(crate) fn key_head(&mut self, key: &[u8], now_ns: u64) -> Result<Option<KeyHead>, Status> {
        self.set_now(now_ns);
        self.expire_key(key, now_ns)?;
        let head = self.head(key)?;
        Ok(head.map(|(version, envelope, value_bytes)| KeyHead {
            version,
            value_bytes,
            expires_ns: envelope.expires_ns,
        }))
    }

    /// Appends [`ENVELOPE_BYTES`] of no meaning and a whole value to `out`, and counts a GET.
    pub(crate) fn get_whole(&mut self, key: &[u8], now_ns: u64, out: &mut Vec<u8>) -> Result<Option<KeyHead>, Status> {
        self.set_now(now_ns);
        count(&self.counts.gets);
        let mut expired = false;
        if let Some(note) = self.directory.find(key) {
            expired = note.expires_ns != 0 && note.expires_ns <= now_ns;
            note.used = tick(now_ns);
        }
        if expired {
            self.expire_key(key, now_ns)?;
        }
        let start = out.len();
        let found = self.owner.get_part(key, 0, u64::MAX, out).map_err(|error| status_of(&error))?;
        let Some((header, stored_bytes)) = found else {
            count(&self.counts.misses);
            return Ok(None);
        };
        let (envelope, _) = Envelope::split(&out[start..]).ok_or_else(broken)?;
        Ok(Some(KeyHead {
            version: KvVersion::new(envelope.stamp, header),
            value_bytes: stored_bytes - ENVELOPE_BYTES as u64,
            expires_ns: envelope.expires_ns,
        }))
    }

    /// Appends some bytes of a value to `out`, from `from` on: fewer if the value ends before. Returns false if the key is absent.
    pub(crate) fn get_range(
        &mut self,
        key: &[u8],
        from: u64,
        len_bytes: u64,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, Status> {
        self.expire_key(key, now_ns)?;
        let from = (ENVELOPE_BYTES as u64).saturating_add(from);
        let found = self.owner.get_part(key, from, len_bytes, out).map_err(|error| status_of(&error))?;
        Ok(found.is_some())
    }
}

#[cfg(test)]
mod tests {
    use remote::{OwnerOptions, PlainMemory};

    use super::*;
    use crate::protocol::{PutExpiry, PutIf};
    use crate::server::layout::{self, KvLayout};
    use crate::server::table::WhenFull;

    #[test]
    fn whole_values_ranges_and_heads_agree_and_expire() {
        let options = OwnerOptions { keys: 64, ..OwnerOptions::default() };
        let owner = layout::create(KvLayout::Cluster, PlainMemory::new(4 << 20), options).unwrap();
        let mut table = TableWriter::new(owner, 2 << 20, WhenFull::Refuse, 3);
        let put = table.put(b"k", b"a value of some bytes", PutIf::Always, PutExpiry::AfterNs(100), 1).unwrap();
        let head = table.key_head(b"k", 5).unwrap().unwrap();
        assert!(matches!(put, crate::protocol::PutReply::Stored { version, .. } if version == head.version));
        assert_eq!((head.value_bytes, head.expires_ns), (21, 101));
        let mut whole = b"x".to_vec();
        assert_eq!(table.get_whole(b"k", 100, &mut whole).unwrap(), Some(head));
        assert_eq!(&whole[1 + ENVELOPE_BYTES..], b"a value of some bytes");
        let range = |table: &mut TableWriter, from, len, now| {
            let mut out = Vec::new();
            assert_eq!(table.get_range(b"k", from, len, now, &mut out).unwrap(), now < 101);
            out
        };
        assert_eq!(range(&mut table, 2, 5, 100), b"value");
        assert_eq!(range(&mut table, 16, 500, 100), b"bytes");
        assert_eq!(range(&mut table, 22, 5, 100), b"");
        assert_eq!(range(&mut table, u64::MAX, u64::MAX, 100), b"");
        whole.clear();
        assert_eq!(table.get_whole(b"k", 101, &mut whole).unwrap(), None);
        assert_eq!((whole.len(), table.key_head(b"k", 101).unwrap(), table.keys()), (0, None, 0));
        assert_eq!(range(&mut table, 0, 5, 101), b"");
    }
}
