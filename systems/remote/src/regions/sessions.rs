//! The clients of a memory server: each has a token, proofs, windows and a lease.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use longarm_rpc::Status;

use crate::exposure::ConnectionToken;
use crate::proof::ProofBytes;
use crate::regions::protocol::RegionRole;
use crate::regions::store::SessionNumber;

/// Clients at a time.
const MOST_SESSIONS: usize = 1 << 14;
/// Regions that one client has open.
const MOST_WINDOWS: usize = 1024;

/// A region that a client has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRegion {
    pub(crate) region: u64,
    pub(crate) role: RegionRole,
}

pub(crate) struct MemorySession {
    pub(crate) number: SessionNumber,
    /// The server's half of all proofs of this client.
    pub(crate) nonce: ProofBytes,
    pub(crate) owned: HashSet<String>,
    pub(crate) open: HashMap<u32, OpenRegion>,
    pub(crate) pieces: u64,
    windows: u32,
    used: Instant,
}

impl MemorySession {
    /// Gives the region the next number of a window.
    pub(crate) fn add(&mut self, open: OpenRegion) -> Result<u32, Status> {
        if self.open.len() >= MOST_WINDOWS {
            return Err(Status::resource_exhausted(format!("a client has at most {MOST_WINDOWS} regions open")));
        }
        let window = self.windows;
        self.windows =
            window.checked_add(1).ok_or_else(|| Status::resource_exhausted("the client has no window left"))?;
        self.open.insert(window, open);
        Ok(window)
    }

    /// The region behind a window.
    pub(crate) fn region(&self, window: u32) -> Result<OpenRegion, Status> {
        self.open.get(&window).copied().ok_or_else(|| Status::not_found("the client has no such region open"))
    }

    /// The region behind a window, for a client that may write.
    pub(crate) fn writable(&self, window: u32) -> Result<u64, Status> {
        let open = self.region(window)?;
        match open.role {
            RegionRole::Writer => Ok(open.region),
            RegionRole::Reader => Err(Status::permission_denied("the client may only read the region")),
        }
    }
}

/// All clients.
#[derive(Default)]
pub(crate) struct MemorySessions {
    by_token: HashMap<ConnectionToken, MemorySession>,
    made: SessionNumber,
}

impl MemorySessions {
    pub(crate) fn begin(&mut self) -> Result<(ConnectionToken, ProofBytes), Status> {
        if self.by_token.len() >= MOST_SESSIONS {
            return Err(Status::unavailable(format!("the server has {MOST_SESSIONS} clients, and takes no more")));
        }
        let (mut token, mut nonce) = ([0; 16], [0; 32]);
        for bytes in [&mut token[..], &mut nonce[..]] {
            let no_random = |error| Status::internal(format!("the system gives no random bytes: {error}"));
            getrandom::fill(bytes).map_err(no_random)?;
        }
        self.made += 1;
        let session = MemorySession {
            number: self.made,
            nonce,
            owned: HashSet::new(),
            open: HashMap::new(),
            pieces: 0,
            windows: 0,
            used: Instant::now(),
        };
        self.by_token.insert(token, session);
        Ok((token, nonce))
    }

    /// The client with that token, whose lease begins anew.
    pub(crate) fn find(&mut self, token: &ConnectionToken) -> Result<&mut MemorySession, Status> {
        let session = self.by_token.get_mut(token);
        let session = session.ok_or_else(|| Status::aborted("no such client: its lease has ended"))?;
        session.used = Instant::now();
        Ok(session)
    }

    pub(crate) fn end(&mut self, token: &ConnectionToken) -> Option<MemorySession> {
        self.by_token.remove(token)
    }

    /// Clients whose lease has ended.
    pub(crate) fn overdue(&self, lease: Duration) -> Vec<ConnectionToken> {
        let overdue = self.by_token.iter().filter(|(_, session)| session.used.elapsed() > lease);
        overdue.map(|(token, _)| *token).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Clients that have a region open.
    pub(crate) fn users(&self, region: u64) -> u64 {
        let uses = |session: &&MemorySession| session.open.values().any(|open| open.region == region);
        self.by_token.values().filter(uses).count() as u64
    }

    /// Takes a region from all clients. Returns their tokens and windows.
    pub(crate) fn close_region(&mut self, region: u64) -> Vec<(ConnectionToken, u32)> {
        let mut closed = Vec::new();
        for (token, session) in &mut self.by_token {
            let its = session.open.extract_if(|_, open| open.region == region);
            closed.extend(its.map(|(window, _)| (*token, window)));
        }
        closed
    }
}
