//! The coordinator: one place that all members agree on. It keeps the configuration and a beat of each member, and executes each
//! request at one moment. Its clock plays no part.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ClusterConfig, ClusterMember, MemberId};

/// The moment of a change in the coordinator's history. Each change has a greater one; zero stands for "not there".
pub type Revision = u64;

/// A sign of life of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberBeat {
    /// The member.
    #[serde(flatten)]
    pub member: ClusterMember,
    /// The member serves for so many nanoseconds after a beat at most.
    pub term_ns: u64,
    /// A random number of the process: two processes of one identity tell each other apart.
    pub process: u64,
}

/// Everything that the coordinator keeps, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPicture {
    /// The configuration, and the moment when it was written.
    pub config: Option<(ClusterConfig, Revision)>,
    /// The last beat of each member, and the moment when it was written.
    pub beats: Vec<(MemberBeat, Revision)>,
}

impl ClusterPicture {
    /// The moment of the last beat of a member; zero if there is none.
    pub fn last_beat(&self, id: &MemberId) -> Revision {
        self.beats.iter().find(|(beat, _)| beat.member.id == *id).map_or(0, |(_, revision)| *revision)
    }
}

/// A request to the coordinator. Each is executed as a whole, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorRequest {
    /// Writes a beat if the last one of this member has the revision `expected`. Tells the picture in any case.
    Beat {
        /// The beat.
        beat: MemberBeat,
        /// The revision of the one before.
        expected: Revision,
    },
    /// Replaces the configuration if it has the revision `expected` and the last beats of these members have theirs; then
    /// also deletes these beats.
    Replace {
        /// The new configuration.
        config: ClusterConfig,
        /// The revision of the present one.
        expected: Revision,
        /// Members that are deposed.
        deposed: Vec<(MemberId, Revision)>,
    },
}

/// The answer to a [`CoordinatorRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorReply {
    /// Whether the beat was written, and the picture after it.
    Beaten(Option<Revision>, ClusterPicture),
    /// Whether the configuration was replaced.
    Replaced(bool),
}

/// A request that has no answer. Nobody knows whether it was executed, or still will be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the coordinator of the cluster: {0}")]
pub struct CoordinatorError(pub String);

/// A coordinator as a member's thread uses it.
///
/// A request without an answer may be executed at any time later, even behind others. No request is executed twice.
pub trait Coordinator: Send {
    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// There was none within the time, or it makes no sense.
    fn call(&mut self, request: &CoordinatorRequest, timeout: Duration) -> Result<CoordinatorReply, CoordinatorError>;

    /// Waits until the configuration may have changed, but not longer than that. Returns false if the time is over.
    fn wait(&mut self, timeout: Duration) -> bool;

    /// Reads the picture, for someone who is no member.
    ///
    /// # Errors
    /// As for [`call`](Coordinator::call).
    fn look(&mut self, timeout: Duration) -> Result<ClusterPicture, CoordinatorError>;
}

impl<C: Coordinator + ?Sized> Coordinator for Box<C> {
    fn call(&mut self, request: &CoordinatorRequest, timeout: Duration) -> Result<CoordinatorReply, CoordinatorError> {
        (**self).call(request, timeout)
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        (**self).wait(timeout)
    }

    fn look(&mut self, timeout: Duration) -> Result<ClusterPicture, CoordinatorError> {
        (**self).look(timeout)
    }
}
