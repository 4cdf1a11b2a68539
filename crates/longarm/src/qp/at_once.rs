//! READs that are no requests: this processor copies from the peer's memory while the caller waits.

use super::connected::QueuePair;
use super::service::Rc;
use crate::object::{ObjectRead, is_whole};
use crate::remote::RemoteKey;

impl QueuePair<Rc> {
    /// Reads all of `from` into bytes that need not be registered, before the call returns, if that is possible: both processes
    /// are on one host, the peer's memory is mapped here, and no earlier request is under way. There is no request then, and so
    /// no completion. Otherwise it returns false, and what the bytes hold means nothing: [`read`](QueuePair::read) does it, or says
    /// why not.
    ///
    /// It is the cheapest READ within a host: some checks and one copy. Devices of the system cannot do it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(qp: longarm::QueuePair, from: longarm::RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut bytes = vec![0; from.len_bytes() as usize];
    /// if !qp.read_now(&mut bytes, &from) {
    ///     let buffer = qp.protection_domain().allocate(bytes.len())?;
    ///     bytes.copy_from_slice(&qp.read(buffer, &from).wait(Duration::from_secs(5))?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If `out` has not the length of the range.
    #[inline]
    pub fn read_now(&self, out: &mut [u8], from: &RemoteKey) -> bool {
        assert_eq!(out.len() as u64, from.len_bytes(), "all of the range is read");
        self.core().read_now(out, from, None).is_some()
    }

    /// As [`read_now`](QueuePair::read_now), of an object at one moment as [`read_object`](QueuePair::read_object) reads it. `None` if
    /// that is not possible now.
    ///
    /// ```no_run
    /// # fn example(qp: longarm::QueuePair, object: longarm::RemoteKey) {
    /// use longarm::ObjectRead;
    /// let mut bytes = [0; 128];
    /// match qp.read_object_now(&mut bytes, &object, 1 << 63) {
    ///     Some(ObjectRead::Whole(())) => println!("version {:?}", &bytes[..8]),
    ///     Some(ObjectRead::Busy(())) => println!("somebody writes it"),
    ///     None => println!("it takes a request"),
    /// }
    /// # }
    /// ```
    ///
    /// # Panics
    /// If `out` has not the length of the range.
    #[inline]
    pub fn read_object_now(&self, out: &mut [u8], from: &RemoteKey, lock_mask: u64) -> Option<ObjectRead<()>> {
        assert_eq!(out.len() as u64, from.len_bytes(), "all of the object is read");
        let taken = self.core().read_now(out, from, Some(lock_mask))?;
        Some(if is_whole(taken) { ObjectRead::Whole(()) } else { ObjectRead::Busy(()) })
    }
}
