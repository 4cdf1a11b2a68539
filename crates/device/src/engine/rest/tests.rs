//! The policy, with a simulated clock and scheduler.

use super::*;

/// A thread that polls, and the system's figures for it.
struct Thread {
    rest: RestPolicy,
    now: Time,
    usage: ThreadUsage,
}

impl Thread {
    fn new() -> Thread {
        Thread { rest: RestPolicy::default(), now: Time(1_000_000_000), usage: ThreadUsage::default() }
    }

    /// Polls for so long in vain, 400 ns each. Returns the number of naps that it was advised to take.
    fn poll(&mut self, time: Duration) -> u32 {
        let end = self.now + time;
        let mut naps = 0;
        while self.now < end {
            self.runs(Duration::from_nanos(400));
            if self.rest.rests() && self.rest.advise(self.now) == Advice::Nap {
                naps += 1;
                self.sleeps(Duration::from_micros(20));
                self.rest.woke(self.now);
            } else if self.rest.is_due(FULL_POLL) {
                self.rest.ask(self.now, self.usage);
            }
        }
        naps
    }

    fn runs(&mut self, time: Duration) {
        self.now = self.now + time;
        self.usage.ran += time;
    }

    fn sleeps(&mut self, time: Duration) {
        self.now = self.now + time;
        self.usage.waited += 1;
    }

    fn loses(&mut self, time: Duration) {
        self.now = self.now + time;
        self.usage.preempted += 1;
    }

    /// The thread runs for 4 ms, then others run for 8 ms.
    fn competes(&mut self, turns: u32) -> u32 {
        let mut naps = 0;
        for _ in 0..turns {
            naps += self.poll(Duration::from_millis(4));
            if naps == 0 {
                self.loses(Duration::from_millis(8));
            }
        }
        naps
    }
}

#[test]
fn on_a_quiet_machine_it_spins_for_ever() {
    let mut thread = Thread::new();
    for _ in 0..1000 {
        assert_eq!(thread.poll(Duration::from_millis(1)), 0);
        // The background thread, an interrupt.
        thread.loses(Duration::from_micros(30));
    }
}

#[test]
fn a_thread_that_loses_its_processor_rests() {
    let mut thread = Thread::new();
    assert!(thread.competes(3) > 10);
}

#[test]
fn a_thread_that_sleeps_does_not_count_as_preempted() {
    let mut thread = Thread::new();
    for _ in 0..100 {
        assert_eq!(thread.poll(Duration::from_micros(500)), 0);
        thread.loses(Duration::from_micros(30));
        thread.sleeps(Duration::from_millis(5));
    }
}

#[test]
fn a_rest_ends_and_comes_back_longer_while_others_compute() {
    let mut thread = Thread::new();
    let mut rests = Vec::new();
    for _ in 0..8 {
        while !thread.rest.rests() {
            thread.poll(Duration::from_millis(4));
            if !thread.rest.rests() {
                thread.loses(Duration::from_millis(8));
            }
        }
        rests.push(thread.rest.hold);
        thread.poll(thread.rest.hold + Duration::from_micros(50));
        assert!(!thread.rest.rests(), "it tries to spin again");
    }
    assert_eq!(rests[..3], [HOLD_MIN, HOLD_MIN * 2, HOLD_MIN * 4]);
    assert_eq!(rests[7], HOLD_MAX);
    thread.poll(HOLD_MAX * 3);
    assert_eq!(thread.competes(3).min(1), 1);
    assert_eq!(thread.rest.hold, HOLD_MIN, "the machine was quiet for long");
}

#[test]
fn a_thread_with_other_work_between_polls_does_not_nap() {
    let mut thread = Thread::new();
    thread.competes(3);
    for _ in 0..100 {
        thread.runs(DENSE + Duration::from_micros(1));
        assert_eq!(thread.rest.advise(thread.now), Advice::Spin);
    }
}

#[test]
fn a_thread_with_timely_messages_never_asks_the_system() {
    let mut rest = RestPolicy::default();
    for _ in 0..100_000 {
        assert!((0..20).all(|_| !rest.is_due(FULL_POLL)));
        rest.found();
    }
}

#[test]
fn a_thread_that_arms_a_queue_does_not_rest() {
    let mut thread = Thread::new();
    assert!(thread.competes(3) > 0);
    thread.rest.spin();
    assert_eq!(thread.poll(Duration::from_millis(3)), 0);
}

#[test]
fn naps_in_vain_are_noticed_in_succession_only() {
    let mut rest = RestPolicy::default();
    let vain = |rest: &mut RestPolicy| (0..VAIN_WEIGHT / FULL_POLL).map(|_| rest.is_in_vain()).collect::<Vec<_>>();
    for _ in 0..2 {
        let all = vain(&mut rest);
        assert!(all.iter().rev().skip(1).all(|in_vain| !in_vain) && all.last() == Some(&true), "{all:?}");
    }
    assert!(!rest.is_in_vain());
    rest.found();
    assert!(!vain(&mut rest)[0]);
}

/// Peers hear that the thread is awake when it polls seldom. The next nap must be announced again.
#[test]
fn a_ticket_ends_when_the_thread_polls_seldom() {
    let mut thread = Thread::new();
    thread.rest.rest_until(thread.now + Duration::from_secs(1));
    thread.rest.woke(thread.now);
    let ticket = NapTicket::default();
    thread.rest.announce(ticket);
    thread.runs(DENSE);
    assert_eq!((thread.rest.advise(thread.now), thread.rest.take_ticket()), (Advice::Nap, Some(ticket)));
    thread.rest.announce(ticket);
    thread.runs(DENSE * 2);
    assert_eq!((thread.rest.advise(thread.now), thread.rest.take_ticket()), (Advice::Spin, None));
}
