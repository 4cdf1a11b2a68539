//! The coordinator's rules, on a picture in memory: for one process, for tests, and for the simulator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::config::{ClusterConfig, MemberId};
use crate::coordinator::{
    ClusterPicture, Coordinator, CoordinatorError, CoordinatorReply, CoordinatorRequest, MemberBeat, Revision,
};

/// The state of a coordinator, and what requests do to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoordinatorState {
    revision: Revision,
    config: Option<(ClusterConfig, Revision)>,
    beats: BTreeMap<MemberId, (MemberBeat, Revision)>,
}

impl CoordinatorState {
    /// Executes a request.
    pub(crate) fn execute(&mut self, request: &CoordinatorRequest) -> CoordinatorReply {
        match request {
            CoordinatorRequest::Beat { beat, expected } => {
                let written = (self.last_beat(&beat.member.id) == *expected).then(|| {
                    self.revision += 1;
                    self.beats.insert(beat.member.id.clone(), (beat.clone(), self.revision));
                    self.revision
                });
                CoordinatorReply::Beaten(written, self.picture())
            }
            CoordinatorRequest::Replace { config, expected, deposed } => {
                let holds = self.config_revision() == *expected
                    && deposed.iter().all(|(id, revision)| self.last_beat(id) == *revision);
                if holds {
                    self.revision += 1;
                    self.config = Some((config.clone(), self.revision));
                    deposed.iter().for_each(|(id, _)| drop(self.beats.remove(id)));
                }
                CoordinatorReply::Replaced(holds)
            }
        }
    }

    /// Everything, at this moment.
    pub(crate) fn picture(&self) -> ClusterPicture {
        ClusterPicture { config: self.config.clone(), beats: self.beats.values().cloned().collect() }
    }

    pub(crate) fn config_revision(&self) -> Revision {
        self.config.as_ref().map_or(0, |(_, revision)| *revision)
    }

    fn last_beat(&self, id: &MemberId) -> Revision {
        self.beats.get(id).map_or(0, |(_, revision)| *revision)
    }
}

/// A coordinator in the memory of this process, for members of one process. Clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct LocalCoordinator {
    shared: Arc<LocalShared>,
    seen: Revision,
}

#[derive(Debug, Default)]
struct LocalShared {
    state: Mutex<CoordinatorState>,
    replaced: Condvar,
}

impl Coordinator for LocalCoordinator {
    fn call(&mut self, request: &CoordinatorRequest, _: Duration) -> Result<CoordinatorReply, CoordinatorError> {
        let mut state = self.shared.state.lock();
        let reply = state.execute(request);
        self.seen = state.config_revision();
        self.shared.replaced.notify_all();
        Ok(reply)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let mut state = self.shared.state.lock();
        let seen = self.seen;
        let waited = self.shared.replaced.wait_while_for(&mut state, |state| state.config_revision() == seen, timeout);
        self.seen = state.config_revision();
        !waited.timed_out()
    }

    fn look(&mut self, _: Duration) -> Result<ClusterPicture, CoordinatorError> {
        Ok(self.shared.state.lock().picture())
    }
}
