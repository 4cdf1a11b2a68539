//! A switch with a shared buffer: one queue to the receiver, an account for each ingress.
//!
//! - **Marks** (congestion point of DCQCN, RED on the instantaneous queue): none below K_min, certain above K_max,
//!   in between with a probability that grows to P_max.
//! - **Pauses** (PFC): a link whose packets take more than X_off of the buffer is paused, until they take less than
//!   X_on. Packets in flight still find room then as long as the buffer has any (headroom).
//! - Packets that find no room are lost.

use std::collections::VecDeque;

use faults::Rng;

/// Parameters of the switch, all in bytes but the probability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchSpec {
    /// The buffer of all queues together.
    pub buffer_bytes: u64,
    /// A queue up to here marks nothing.
    pub k_min: u64,
    /// A queue from here on marks everything.
    pub k_max: u64,
    /// Probability of a mark just below `k_max`.
    pub p_max: f64,
    /// Bytes of one ingress beyond which its link is paused.
    pub x_off: u64,
    /// Bytes of one ingress below which its link resumes.
    pub x_on: u64,
}

impl Default for SwitchSpec {
    /// The paper's: a buffer of 12 MB, K_min 5 KB, K_max 200 KB, P_max 1 %, X_off 24.47 KB, X_on two packets less.
    fn default() -> SwitchSpec {
        SwitchSpec {
            buffer_bytes: 12_000_000,
            k_min: 5_000,
            k_max: 200_000,
            p_max: 0.01,
            x_off: 24_470,
            x_on: 24_470 - 2 * 4096,
        }
    }
}

/// A packet in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) sender: usize,
    pub(super) bytes: Vec<u8>,
    /// Its size on links and in the buffer.
    pub(super) wire_bytes: u64,
    /// It carries a mark.
    pub(super) marked: bool,
}

/// A PAUSE message for a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PauseSignal {
    Pause,
    Resume,
}

#[derive(Debug)]
pub(super) struct Switch {
    spec: SwitchSpec,
    pauses: bool,
    marks: bool,
    rng: Rng,
    queue: VecDeque<Queued>,
    queue_bytes: u64,
    /// Bytes of each ingress, and whether it is paused.
    ingress: Vec<(u64, bool)>,
    pub(super) drops: u64,
    pub(super) marked: u64,
}

impl Switch {
    pub(super) fn new(spec: SwitchSpec, ports: usize, pauses: bool, marks: bool, rng: Rng) -> Switch {
        Switch {
            spec,
            pauses,
            marks,
            rng,
            queue: VecDeque::new(),
            queue_bytes: 0,
            ingress: vec![(0, false); ports],
            drops: 0,
            marked: 0,
        }
    }

    pub(super) fn queue_bytes(&self) -> u64 {
        self.queue_bytes
    }

    /// A packet comes in; `capable`: its transport understands marks.
    pub(super) fn arrive(&mut self, mut packet: Queued, capable: bool) -> Option<PauseSignal> {
        if self.queue_bytes + packet.wire_bytes > self.spec.buffer_bytes {
            self.drops += 1;
            return None;
        }
        if self.marks && capable && self.rng.chance(self.mark_probability()) {
            packet.marked = true;
            self.marked += 1;
        }
        self.queue_bytes += packet.wire_bytes;
        let (bytes, paused) = &mut self.ingress[packet.sender];
        *bytes += packet.wire_bytes;
        let pause = self.pauses && *bytes > self.spec.x_off && !*paused;
        *paused |= pause;
        self.queue.push_back(packet);
        pause.then_some(PauseSignal::Pause)
    }

    /// The next packet leaves.
    pub(super) fn depart(&mut self) -> Option<(Queued, Option<PauseSignal>)> {
        let packet = self.queue.pop_front()?;
        self.queue_bytes -= packet.wire_bytes;
        let (bytes, paused) = &mut self.ingress[packet.sender];
        *bytes -= packet.wire_bytes;
        let resume = *paused && *bytes < self.spec.x_on;
        *paused &= !resume;
        Some((packet, resume.then_some(PauseSignal::Resume)))
    }

    fn mark_probability(&self) -> f64 {
        let SwitchSpec { k_min, k_max, p_max, .. } = self.spec;
        match self.queue_bytes {
            queue if queue <= k_min => 0.0,
            queue if queue < k_max => (queue - k_min) as f64 / (k_max - k_min) as f64 * p_max,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(pauses: bool, marks: bool) -> Switch {
        Switch::new(SwitchSpec::default(), 2, pauses, marks, Rng::new(1))
    }

    fn packet(sender: usize, wire_bytes: u64) -> Queued {
        Queued { sender, bytes: Vec::new(), wire_bytes, marked: false }
    }

    #[test]
    fn an_ingress_is_paused_once_and_resumed_once() {
        let mut switch = switch(true, false);
        let signals: Vec<_> = (0..10).map(|_| switch.arrive(packet(0, 4096), true)).collect();
        assert_eq!(signals.iter().flatten().collect::<Vec<_>>(), [&PauseSignal::Pause]);
        assert_eq!(signals[5], Some(PauseSignal::Pause), "six packets are more than X_off");
        assert_eq!(switch.arrive(packet(1, 4096), true), None, "another ingress goes on");
        let signals: Vec<_> = (0..10).filter_map(|_| switch.depart()).map(|(_, signal)| signal).collect();
        assert_eq!(signals.iter().flatten().collect::<Vec<_>>(), [&PauseSignal::Resume]);
        assert_eq!(signals[6], Some(PauseSignal::Resume), "three packets are less than X_on");
    }

    #[test]
    fn marks_follow_the_queue() {
        let mut switch = switch(false, true);
        for _ in 0..10 {
            switch.arrive(packet(0, 20_000), true);
        }
        let below = switch.marked;
        assert!(below <= 2, "{below} of ten at one percent");
        for _ in 0..10 {
            switch.arrive(packet(0, 20_000), true);
        }
        assert_eq!(switch.marked, below + 10, "a queue beyond K_max marks everything");
        switch.arrive(packet(0, 20_000), false);
        assert_eq!(switch.marked, below + 10, "but only what understands marks");
    }

    #[test]
    fn what_finds_no_room_is_lost() {
        let mut switch = switch(false, false);
        for _ in 0..13 {
            switch.arrive(packet(0, 1_000_000), true);
        }
        assert_eq!((switch.drops, switch.queue_bytes()), (1, 12_000_000));
    }
}
