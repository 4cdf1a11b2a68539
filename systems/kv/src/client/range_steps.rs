//! The steps of a range, without READs or requests of their own. Clients of one thread and those of tasks take the same ones.

use remote::{KeyRange, ObjectHeader};

use crate::client::answer::judge;
use crate::clock::{ClockReading, ExpiryVerdict, now_ns};
use crate::envelope::{Envelope, KvVersion};
use crate::error::KvError;
use crate::protocol::{GrantKey, RangeItem, RangeReply, RangeRequest, decode, encode};
use crate::server::KvLayout;

/// A key of a range, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvItem {
    /// The key.
    pub key: Vec<u8>,
    /// The bytes of its value.
    pub value: Vec<u8>,
    /// The version, for compare-and-swap.
    pub version: KvVersion,
}

/// Refuses ranges of a table whose layout has no order.
pub(crate) fn must_have_order(layout: &str) -> Result<(), KvError> {
    if layout.parse() == Ok(KvLayout::Tree) {
        return Ok(());
    }
    Err(KvError::NoOrder(format!("the table's layout, {layout}, has no order, so no ranges")))
}

/// A range on its way. `F` takes a key with its value and version.
pub(crate) struct RangeProgress<F> {
    /// The part of the range whose keys have not been told.
    rest: KeyRange,
    /// Keys that may still be told.
    left: usize,
    told: usize,
    each: F,
}

impl<F: FnMut(&[u8], &[u8], KvVersion)> RangeProgress<F> {
    pub(crate) fn new(range: KeyRange, limit: usize, each: F) -> RangeProgress<F> {
        RangeProgress { rest: range, left: limit, told: 0, each }
    }

    /// True if there may be more keys to tell.
    pub(crate) fn is_open(&self) -> bool {
        self.left > 0 && !self.rest.is_empty()
    }

    /// The number of keys that were told.
    pub(crate) fn told(&self) -> usize {
        self.told
    }

    pub(crate) fn tell(&mut self, key: &[u8], value: &[u8], version: KvVersion) {
        (self.each)(key, value, version);
        self.told += 1;
        self.left -= 1;
    }

    /// The key is done, told or not.
    pub(crate) fn pass(&mut self, key: &[u8]) {
        self.rest = self.rest.behind(key);
    }

    /// A request for the rest.
    pub(crate) fn request(&self, grant: GrantKey, out: &mut Vec<u8>) {
        let (first, end) = (self.rest.first(), self.rest.end());
        let (limit, first_bytes) = (self.left as u64, first.len() as u32);
        let head = RangeRequest { grant, limit, first_bytes, has_end: end.is_some() };
        encode(&head, &[first, end.unwrap_or_default()], out);
    }
}

/// An item behind one that the server has to judge.
pub(crate) struct HeldItem {
    pub(crate) item: KvItem,
    pub(crate) is_doubtful: bool,
}

/// One scan by READs of the rest of a range.
pub(crate) struct RangeScan {
    range: KeyRange,
    limit: usize,
    seen: usize,
    /// The last key that was told, or has expired, before the first doubtful one.
    last: Option<Vec<u8>>,
    held: Vec<HeldItem>,
    is_broken: bool,
    /// The time before the scan.
    since_ns: u64,
}

impl RangeScan {
    pub(crate) fn of<F>(progress: &RangeProgress<F>) -> RangeScan {
        let (range, limit) = (progress.rest.clone(), progress.left);
        RangeScan { range, limit, seen: 0, last: None, held: Vec::new(), is_broken: false, since_ns: now_ns() }
    }

    /// The wanted keys, and their number at most.
    pub(crate) fn wanted(&self) -> (KeyRange, usize) {
        (self.range.clone(), self.limit)
    }

    /// Takes an item, and tells it if nothing before it is doubtful.
    pub(crate) fn take(
        &mut self,
        clock: Option<ClockReading>,
        (key, header, stored): (&[u8], ObjectHeader, &[u8]),
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) {
        self.seen += 1;
        let Some((envelope, value)) = Envelope::split(stored) else {
            self.is_broken = true;
            return;
        };
        let version = KvVersion::new(envelope.stamp, header);
        let verdict = judge(clock, Some(self.since_ns), envelope);
        if self.held.is_empty() && verdict != ExpiryVerdict::Unknown {
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        match verdict {
            ExpiryVerdict::Expired => {}
            ExpiryVerdict::Live if self.held.is_empty() => progress.tell(key, value, version),
            _ => {
                let item = KvItem { key: key.to_vec(), value: value.to_vec(), version };
                self.held.push(HeldItem { item, is_doubtful: verdict == ExpiryVerdict::Unknown });
            }
        }
    }

    /// The scan has ended or failed. A later one begins behind the last key that was told: those behind a doubtful one are
    /// read again.
    pub(crate) fn end<F>(&mut self, progress: &mut RangeProgress<F>) {
        if let Some(last) = self.last.take() {
            progress.rest = self.range.behind(&last);
        }
    }

    /// True if the table has a value without an envelope.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// True if there may be more keys: expired ones made room.
    pub(crate) fn may_go_on(&self) -> bool {
        self.seen == self.limit
    }

    /// The items from the first doubtful one on.
    pub(crate) fn into_held(self) -> Vec<HeldItem> {
        self.held
    }
}

/// A server's answer to a [`RangeRequest`], as far as it has been taken.
pub(crate) struct RangeAnswer<'r> {
    items: u64,
    left: u64,
    next: Option<&'r [u8]>,
    bytes: &'r [u8],
}

impl<'r> RangeAnswer<'r> {
    pub(crate) fn decode(reply: &'r [u8]) -> Result<RangeAnswer<'r>, KvError> {
        let (RangeReply { items, next, .. }, bytes): (RangeReply<'r>, _) = decode(reply)?;
        Ok(RangeAnswer { items, left: items, next, bytes })
    }

    /// Tells items. Returns the key of one that has to be asked for alone, because its value is long: when that was done and the
    /// key was passed, this goes on. `None` at the end of the answer.
    pub(crate) fn advance(
        &mut self,
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) -> Result<Option<&'r [u8]>, KvError> {
        while self.left > 0 {
            self.left -= 1;
            let (item, behind): (RangeItem, _) = decode(self.bytes)?;
            let parts = behind.split_at_checked(item.key_bytes as usize);
            let parts = parts.and_then(|(key, behind)| Some((key, behind.split_at_checked(item.here_bytes as usize)?)));
            let (key, (value, behind)) = parts.ok_or_else(malformed)?;
            self.bytes = behind;
            if !progress.rest.contains(key) || progress.left == 0 {
                return Err(malformed());
            }
            if value.len() as u64 != item.value_bytes {
                return Ok(Some(key));
            }
            progress.tell(key, value, item.version);
            progress.pass(key);
        }
        Ok(None)
    }

    /// Goes behind the answer. Returns false if the range is over.
    pub(crate) fn end<F>(self, progress: &mut RangeProgress<F>) -> Result<bool, KvError> {
        match self.next {
            Some(next) if progress.rest.contains(next) && (self.items > 0 || next > progress.rest.first()) => {
                progress.rest = progress.rest.starting_at(next);
                Ok(true)
            }
            Some(_) => Err(malformed()),
            None => Ok(false),
        }
    }
}

fn malformed() -> KvError {
    KvError::Invalid("the server's answer is no part of the range".into())
}
