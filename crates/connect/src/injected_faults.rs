//! Faults injected into the connection manager's outgoing messages, as `LONGARM_FAULTS` asks.
//!
//! The device has an injector of its own for all other packets. Here loss and duplication
//! apply; a damaged message counts as lost, since its checksum is wrong. The connection manager
//! waits seconds for its messages. So faults of microseconds (delay, reordering) are left
//! to the simulator.

use faults::{FaultPlan, Injector};

use crate::error::Error;

const FAULTS: &str = "LONGARM_FAULTS";

/// Decides how often each message is sent.
#[derive(Debug, Default)]
pub(crate) struct InjectedFaults(Option<Injector>);

impl InjectedFaults {
    /// The plan of the environment; none if the variable is not set.
    pub(crate) fn of_environment() -> Result<InjectedFaults, Error> {
        let Some(text) = guest::environment::value(FAULTS) else {
            return Ok(InjectedFaults::default());
        };
        let plan = text.to_str().and_then(|text| text.parse().ok());
        plan.map(InjectedFaults::new).ok_or(Error::Invalid("LONGARM_FAULTS is not a valid fault plan"))
    }

    fn new(plan: FaultPlan) -> InjectedFaults {
        InjectedFaults((!plan.is_harmless()).then(|| Injector::new(plan)))
    }

    /// The number of copies to send of the next message: 0, 1 or 2.
    pub(crate) fn copies(&self) -> usize {
        let Some(injector) = &self.0 else { return 1 };
        let verdict = injector.judge();
        if verdict.drop || verdict.corrupt.is_some() { 0 } else { 1 + usize::from(verdict.duplicate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_decides_how_often_a_message_is_sent() {
        let always = |plan: &str| InjectedFaults::new(plan.parse().unwrap()).copies();
        assert_eq!(InjectedFaults::default().copies(), 1);
        assert_eq!(always("loss=1"), 0);
        assert_eq!(always("corrupt=1"), 0);
        assert_eq!(always("dup=1"), 2);
        assert_eq!(always("delay=1ms"), 1);
    }
}
