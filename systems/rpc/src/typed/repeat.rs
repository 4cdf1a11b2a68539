//! The policy by which tower's retry layer repeats calls.

use std::error::Error;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};
use tower::retry::Policy;
use tower::util::rng::{HasherRng, Rng};

use super::errors::{BoxError, status_in};
use crate::code::Code;
use crate::service::Call;
use crate::status::Status;

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Repeats calls that the server did not execute, so no handler runs twice for one call.
///
/// It repeats [`Code::Unavailable`], [`Code::ResourceExhausted`] and [`Code::Aborted`], for which a later attempt may do better, if
/// [`Status::can_repeat`] says yes and the deadline has not passed. It pauses before each attempt: 1 ms, then twice as
/// long each time up to 100 ms, all within 50 % by chance. The timer is tokio's.
///
/// ```
/// use longarm_rpc::{RepeatUnexecuted, Router};
/// use tower::ServiceBuilder;
///
/// let channel = ServiceBuilder::new().retry(RepeatUnexecuted::at_most(3)).service(Router::default());
/// # drop(channel);
/// ```
#[derive(Clone, Debug)]
pub struct RepeatUnexecuted {
    left: u32,
    pause: Duration,
    chance: HasherRng,
}

impl RepeatUnexecuted {
    /// So many attempts after the first one.
    pub fn at_most(repeats: u32) -> RepeatUnexecuted {
        RepeatUnexecuted { left: repeats, pause: FIRST_PAUSE, chance: HasherRng::default() }
    }

    fn next_pause(&mut self, call: &Call, status: &Status) -> Option<Pin<Box<Sleep>>> {
        let is_passing = matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Aborted);
        let is_in_time = call.request.deadline().is_none_or(|deadline| Instant::now() < deadline);
        if !(status.can_repeat() && is_passing && is_in_time) {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        let pause = self.pause.mul_f64(0.5 + self.chance.next_f64());
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(Box::pin(sleep(pause)))
    }
}

impl<R> Policy<Call, R, Status> for RepeatUnexecuted {
    type Future = Pin<Box<Sleep>>;

    fn retry(&mut self, call: &mut Call, result: &mut Result<R, Status>) -> Option<Self::Future> {
        result.as_ref().err().and_then(|status| self.next_pause(call, status))
    }

    fn clone_request(&mut self, call: &Call) -> Option<Call> {
        Some(call.clone())
    }
}

impl<R> Policy<Call, R, BoxError> for RepeatUnexecuted {
    type Future = Pin<Box<Sleep>>;

    fn retry(&mut self, call: &mut Call, result: &mut Result<R, BoxError>) -> Option<Self::Future> {
        let error: &(dyn Error + 'static) = &**result.as_ref().err()?;
        self.next_pause(call, &status_in(error)?)
    }

    fn clone_request(&mut self, call: &Call) -> Option<Call> {
        Some(call.clone())
    }
}
