//! The probabilities of faults.

use core::time::Duration;

/// A plan of faults. As text: `seed=7,loss=0.05,dup=0.01,delay=100us`, each part optional, in any order; see
/// the fields for their names and meanings.
///
/// Probabilities are per packet and independent of each other. Values set from code are not checked: below
/// zero and NaN act as zero, above one as one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultPlan {
    /// The seed: the same plan with the same seed gives the same faults.
    pub seed: u64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet arrives twice.
    pub dup: f64,
    /// Probability that a packet is overtaken by later ones.
    pub reorder: f64,
    /// Probability that one bit of a packet is flipped.
    pub corrupt: f64,
    /// Probability that a receiver with a receive WQE says that it has none.
    pub rnr: f64,
    /// The least time that a delayed packet waits.
    pub delay: Duration,
    /// The additional random wait: evenly distributed between nothing and this.
    pub jitter: Duration,
    /// Probability that a packet is delayed. One by default, so that `delay` alone acts on every packet.
    pub delayed: f64,
}

impl Default for FaultPlan {
    fn default() -> FaultPlan {
        FaultPlan {
            seed: 0,
            loss: 0.0,
            dup: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            rnr: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            delayed: 1.0,
        }
    }
}

impl FaultPlan {
    /// True if the plan changes no packet.
    pub fn is_harmless(&self) -> bool {
        let waits = self.delayed > 0.0 && !(self.delay.is_zero() && self.jitter.is_zero());
        let strikes = [self.loss, self.dup, self.reorder, self.corrupt, self.rnr];
        !waits && !strikes.iter().any(|p| *p > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_means_that_nothing_can_happen() {
        let ms = Duration::from_millis(1);
        let none = FaultPlan::default();
        assert!(none.is_harmless());
        assert!(FaultPlan { seed: 9, ..none }.is_harmless());
        let idle = FaultPlan { delay: ms, delayed: 0.0, ..none };
        assert!(idle.is_harmless());
        for plan in [
            FaultPlan { loss: 0.1, ..none },
            FaultPlan { dup: 0.1, ..none },
            FaultPlan { reorder: 0.1, ..none },
            FaultPlan { corrupt: 0.1, ..none },
            FaultPlan { rnr: 0.1, ..none },
            FaultPlan { delay: ms, ..none },
            FaultPlan { jitter: ms, ..none },
        ] {
            assert!(!plan.is_harmless(), "{plan:?}");
        }
    }
}
