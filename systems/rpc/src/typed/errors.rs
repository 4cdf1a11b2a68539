//! The errors of layers around a channel, as the status of a call.

use std::error::Error;

use crate::code::Executed;
use crate::status::Status;

/// An error of any type, as the layers of tower have it.
pub type BoxError = Box<dyn Error + Send + Sync>;

impl Status {
    /// The status that an error is or contains. Without one: [`Code::Unknown`](crate::Code::Unknown), and nobody can tell whether the server
    /// executed the call.
    ///
    /// With the feature `tower` it knows the errors of tower's layers: `DEADLINE_EXCEEDED` of a timeout, and
    /// `RESOURCE_EXHAUSTED` of a call that was shed.
    ///
    /// ```
    /// use longarm_rpc::{Code, Status};
    ///
    /// assert_eq!(Status::from_error(Status::not_found("no such key").into()).code(), Code::NotFound);
    /// assert_eq!(Status::from_error("broken".into()).code(), Code::Unknown);
    /// ```
    pub fn from_error(error: BoxError) -> Status {
        let error = match error.downcast::<Status>() {
            Ok(status) => return *status,
            Err(error) => error,
        };
        status_in(&*error).unwrap_or_else(|| Status::unknown(error.to_string()).with_executed(Executed::Unknown))
    }
}

/// The status that the error, its source, or a source of that is.
pub(crate) fn status_in(error: &(dyn Error + 'static)) -> Option<Status> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(known)
}

fn known(error: &(dyn Error + 'static)) -> Option<Status> {
    error.downcast_ref::<Status>().cloned().or_else(|| of_tower(error))
}

#[cfg(feature = "tower")]
fn of_tower(error: &(dyn Error + 'static)) -> Option<Status> {
    use crate::code::Code;

    let status = |code: Code, executed| Some(Status::new(code, error.to_string()).with_executed(executed));
    if error.is::<tower::timeout::error::Elapsed>() {
        return status(Code::DeadlineExceeded, Executed::Unknown);
    }
    if error.is::<tower::load_shed::error::Overloaded>() {
        return status(Code::ResourceExhausted, Executed::No);
    }
    None
}

#[cfg(not(feature = "tower"))]
fn of_tower(_: &(dyn Error + 'static)) -> Option<Status> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[derive(Debug, thiserror::Error)]
    #[error("the layer failed")]
    struct Layer(#[source] Status);

    #[test]
    fn a_status_inside_another_error_is_found() {
        let inner = Status::unavailable("no server").with_executed(Executed::No);
        assert_eq!(Status::from_error(Box::new(Layer(inner.clone()))), inner);
    }

    #[test]
    fn an_unknown_error_promises_nothing() {
        let status = Status::from_error("broken".into());
        assert_eq!((status.code(), status.executed()), (Code::Unknown, Executed::Unknown));
        assert_eq!(status.message(), "broken");
    }
}
