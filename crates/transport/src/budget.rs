//! A bound on bytes that many queue pairs may keep together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A bound on the bytes of out-of-order packets that all queue pairs of a device keep together.
#[derive(Debug)]
pub struct ReorderBudget {
    left_bytes: AtomicUsize,
}

impl ReorderBudget {
    /// The budget of a device: enough for 64 queue pairs that keep as much as they may.
    pub const DEFAULT_BYTES: usize = 64 << 20;

    /// A budget of `bytes`.
    pub fn new(bytes: usize) -> ReorderBudget {
        ReorderBudget { left_bytes: AtomicUsize::new(bytes) }
    }

    /// Bytes that are free.
    pub fn left_bytes(&self) -> usize {
        self.left_bytes.load(Ordering::Relaxed)
    }
}

/// The bytes that one queue pair has taken of a budget. They return when it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Option<Arc<ReorderBudget>>,
    taken_bytes: usize,
}

impl BudgetShare {
    /// Nothing of `budget` yet. Without a budget there is no bound here.
    pub(crate) fn new(budget: Option<Arc<ReorderBudget>>) -> BudgetShare {
        BudgetShare { budget, taken_bytes: 0 }
    }

    /// Takes `bytes` more, all or nothing.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.budget else { return true };
        let taken = budget
            .left_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes))
            .is_ok();
        self.taken_bytes += if taken { bytes } else { 0 };
        taken
    }

    /// Gives `bytes` back that were taken.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.taken_bytes);
        self.taken_bytes -= bytes;
        if let Some(budget) = &self.budget {
            budget.left_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.give_back(self.taken_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget_and_come_back() {
        let budget = Arc::new(ReorderBudget::new(100));
        let (mut one, mut two) = (BudgetShare::new(Some(budget.clone())), BudgetShare::new(Some(budget.clone())));
        assert!(one.take(60));
        assert!(!two.take(41));
        assert!(two.take(40));
        one.give_back(10);
        assert_eq!(budget.left_bytes(), 10);
        drop(one);
        drop(two);
        assert_eq!(budget.left_bytes(), 100);
    }

    #[test]
    fn nobody_gives_back_more_than_was_taken() {
        let budget = Arc::new(ReorderBudget::new(100));
        let mut share = BudgetShare::new(Some(budget.clone()));
        assert!(share.take(5));
        share.give_back(50);
        assert_eq!(budget.left_bytes(), 100);
    }

    #[test]
    fn without_a_budget_there_is_no_bound() {
        let mut share = BudgetShare::new(None);
        assert!(share.take(usize::MAX));
        share.give_back(7);
    }
}
