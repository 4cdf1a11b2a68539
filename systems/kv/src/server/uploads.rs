//! Long values on their way to the server.

use std::collections::HashMap;
use std::sync::Arc;

use longarm_rpc::Status;
use parking_lot::Mutex;

use crate::envelope::ENVELOPE_BYTES;
use crate::protocol::GrantKey;

/// Uploads of one client at a time.
const MOST_OF_A_CLIENT: usize = 4;
/// Nothing has come for an upload for so long: its client has given up.
const IDLE_NS: u64 = 60_000_000_000;

/// A long value that has come in part.
pub(crate) struct Upload {
    pub(crate) key: Vec<u8>,
    /// With room for an envelope before it.
    pub(crate) stored: Vec<u8>,
    wanted_bytes: usize,
    used_ns: u64,
}

impl Upload {
    pub(crate) fn is_whole(&self) -> bool {
        self.stored.len() == self.wanted_bytes
    }
}

/// All long values on their way. They lie in private memory, which has a bound of its own.
pub(crate) struct Uploads {
    state: Mutex<UploadState>,
    limit_bytes: u64,
}

#[derive(Default)]
struct UploadState {
    uploads: HashMap<(GrantKey, u64), Arc<Mutex<Upload>>>,
    promised_bytes: u64,
    last: u64,
}

impl Uploads {
    pub(crate) fn new(limit_bytes: u64) -> Uploads {
        Uploads { state: Mutex::default(), limit_bytes }
    }

    /// The key of an upload.
    pub(crate) fn key(&self, id: (GrantKey, u64)) -> Result<Vec<u8>, Status> {
        let upload = self.state.lock().uploads.get(&id).cloned();
        let upload = upload.ok_or_else(unknown)?;
        let key = upload.lock().key.clone();
        Ok(key)
    }

    /// Begins an upload, and returns its number.
    pub(crate) fn begin(&self, grant: GrantKey, key: &[u8], value_bytes: u64, now_ns: u64) -> Result<u64, Status> {
        let mut state = self.state.lock();
        state.forget(now_ns);
        if state.uploads.keys().filter(|(other, _)| *other == grant).count() >= MOST_OF_A_CLIENT {
            return Err(Status::unavailable(format!("the client has {MOST_OF_A_CLIENT} long values on their way")));
        }
        let promised = state.promised_bytes.saturating_add(value_bytes);
        if promised > self.limit_bytes {
            let words = format!("long values on their way have {} bytes at most, of all clients", self.limit_bytes);
            return Err(Status::resource_exhausted(words));
        }
        let wanted_bytes = value_bytes as usize + ENVELOPE_BYTES;
        let upload = Upload { key: key.to_vec(), stored: vec![0; ENVELOPE_BYTES], wanted_bytes, used_ns: now_ns };
        (state.promised_bytes, state.last) = (promised, state.last + 1);
        let number = state.last;
        state.uploads.insert((grant, number), Arc::new(Mutex::new(upload)));
        Ok(number)
    }

    /// Takes the next bytes of a value.
    pub(crate) fn piece(&self, id: (GrantKey, u64), from: u64, bytes: &[u8], now_ns: u64) -> Result<(), Status> {
        let upload = self.state.lock().uploads.get(&id).cloned().ok_or_else(unknown)?;
        let mut upload = upload.lock();
        let stored = upload.stored.len();
        if from != (stored - ENVELOPE_BYTES) as u64 || bytes.len() > upload.wanted_bytes - stored {
            return Err(Status::out_of_range("the pieces of a value come in order, and have its length in all"));
        }
        upload.stored.extend_from_slice(bytes);
        upload.used_ns = now_ns;
        Ok(())
    }

    /// Takes an upload out.
    pub(crate) fn take(&self, id: (GrantKey, u64)) -> Result<Arc<Mutex<Upload>>, Status> {
        self.state.lock().remove(&id).ok_or_else(unknown)
    }
}

impl UploadState {
    fn remove(&mut self, id: &(GrantKey, u64)) -> Option<Arc<Mutex<Upload>>> {
        let upload = self.uploads.remove(id)?;
        self.promised_bytes -= (upload.lock().wanted_bytes - ENVELOPE_BYTES) as u64;
        Some(upload)
    }

    fn forget(&mut self, now_ns: u64) {
        let is_old = |upload: &Mutex<Upload>| now_ns.saturating_sub(upload.lock().used_ns) > IDLE_NS;
        let old: Vec<_> = self.uploads.iter().filter(|(_, upload)| is_old(upload)).map(|(id, _)| *id).collect();
        old.iter().for_each(|id| drop(self.remove(id)));
    }
}

fn unknown() -> Status {
    Status::out_of_range("no such value is on its way")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_in_order_and_within_its_bounds() {
        let (uploads, one) = (Uploads::new(100), [1; 16]);
        let number = uploads.begin(one, b"key", 10, 0).unwrap();
        uploads.piece((one, number), 0, b"0123", 1).unwrap();
        for (from, bytes) in [(0, &b"x"[..]), (5, b"x"), (4, b"0123456"), (u64::MAX, b"")] {
            assert!(uploads.piece((one, number), from, bytes, 1).is_err(), "{from}");
        }
        assert!(uploads.piece(([2; 16], number), 4, b"456789", 1).is_err(), "another client's");
        uploads.piece((one, number), 4, b"456789", 1).unwrap();
        let whole = uploads.take((one, number)).unwrap();
        assert!(whole.lock().is_whole() && whole.lock().stored[ENVELOPE_BYTES..] == *b"0123456789");
        assert!(uploads.take((one, number)).is_err());
    }

    #[test]
    fn memory_for_values_on_their_way_is_bounded_and_comes_back() {
        let (uploads, one, two) = (Uploads::new(100), [1; 16], [2; 16]);
        assert!(uploads.begin(one, b"k", 101, 0).is_err() && uploads.begin(one, b"k", u64::MAX, 0).is_err());
        let numbers: Vec<u64> = (0..4).map(|_| uploads.begin(one, b"k", 20, 0).unwrap()).collect();
        assert!(uploads.begin(one, b"k", 1, 0).is_err(), "four at a time");
        assert!(uploads.begin(two, b"k", 21, 0).is_err(), "no memory");
        uploads.take((one, numbers[0])).unwrap();
        uploads.begin(two, b"k", 40, 0).unwrap();
        // The clients give up.
        assert!(uploads.begin(two, b"k", 100, IDLE_NS + 1).is_ok());
    }
}
