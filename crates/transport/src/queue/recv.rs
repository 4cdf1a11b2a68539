//! Receive queues: a queue pair's own, and the contents of a shared one.

use std::collections::VecDeque;

use crate::error::PostError;
use crate::wr::RecvWr;

/// Receive WQEs in order. Memory is taken as it fills.
#[derive(Debug)]
pub struct RecvQueue {
    wqes: VecDeque<RecvWr>,
    capacity: u32,
    max_sge: u32,
    limit: u32,
}

impl RecvQueue {
    /// An empty queue for `capacity` WQEs of at most `max_sge` list entries.
    pub fn new(capacity: u32, max_sge: u32) -> RecvQueue {
        RecvQueue { wqes: VecDeque::new(), capacity, max_sge, limit: 0 }
    }

    /// Appends a WQE.
    pub fn post(&mut self, wr: RecvWr) -> Result<(), PostError> {
        if wr.sgl.len() > self.max_sge as usize {
            return Err(PostError::TooManySges { max: self.max_sge });
        }
        if self.wqes.len() >= self.capacity as usize {
            return Err(PostError::QueueFull { capacity: self.capacity });
        }
        self.wqes.push_back(wr);
        debug_assert!(self.wqes.len() <= self.capacity as usize, "the queue holds what its capacity allows");
        Ok(())
    }

    /// Takes the oldest WQE. The second value tells that the armed limit was
    /// just crossed: fewer WQEs are left than it says. It is disarmed then
    /// (IB specification 10.2.9.2).
    pub fn take(&mut self) -> Option<(RecvWr, bool)> {
        let wr = self.wqes.pop_front()?;
        let crossed = self.limit != 0 && self.wqes.len() < self.limit as usize;
        if crossed {
            self.limit = 0;
        }
        Some((wr, crossed))
    }

    /// WQEs in the queue.
    pub fn len(&self) -> u32 {
        self.wqes.len() as u32
    }

    /// Whether nothing is posted.
    pub fn is_empty(&self) -> bool {
        self.wqes.is_empty()
    }

    /// WQEs that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// List entries that a WQE may have.
    pub fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Changes the capacity; refused below what is posted, and below the armed limit.
    pub fn resize(&mut self, capacity: u32) -> Result<(), PostError> {
        if (capacity as usize) < self.wqes.len() || capacity < self.limit {
            return Err(PostError::QueueFull { capacity });
        }
        self.capacity = capacity;
        Ok(())
    }

    /// The armed limit; zero when disarmed.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Arms the limit event; zero disarms.
    pub fn arm_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Drops everything posted.
    pub fn clear(&mut self) {
        self.wqes = VecDeque::new();
    }
}
