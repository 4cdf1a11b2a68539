//! Faults injected into what the connection manager sends, as `LONGARM_FAULTS` asks.
//!
//! The device has an injector of its own for everybody else's packets. Here loss and duplication
//! count, and a damaged message is a lost one, since its checksum tells. Messages of the connection
//! manager wait seconds for each other, so what happens in microseconds (delay, reordering) is left
//! to the simulator.

use faults::{FaultPlan, Injector};

use crate::error::Error;

const FAULTS: &str = "LONGARM_FAULTS";

/// How often each message is sent.
#[derive(Debug, Default)]
pub(crate) struct Unreliable(Option<Injector>);

impl Unreliable {
    /// As the environment asks.
    pub(crate) fn of_environment() -> Result<Unreliable, Error> {
        let Some(text) = guest::environment::value(FAULTS) else {
            return Ok(Unreliable::default());
        };
        let plan = text.to_str().and_then(|text| text.parse().ok());
        plan.map(Unreliable::new).ok_or(Error::Invalid("LONGARM_FAULTS is no plan of faults"))
    }

    fn new(plan: FaultPlan) -> Unreliable {
        Unreliable((!plan.is_harmless()).then(|| Injector::new(plan)))
    }

    /// How often the next message is sent: 0, 1 or 2 times.
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
        let always = |plan: &str| Unreliable::new(plan.parse().unwrap()).copies();
        assert_eq!(Unreliable::default().copies(), 1);
        assert_eq!(always("loss=1"), 0);
        assert_eq!(always("corrupt=1"), 0);
        assert_eq!(always("dup=1"), 2);
        assert_eq!(always("delay=1ms"), 1);
    }
}
