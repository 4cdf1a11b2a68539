//! DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015): switches mark packets,
//! the receiver tells the sender (CNP), the sender cuts its rate and raises it again in steps.
//!
//! ```text
//!  sender (reaction point)      switch (congestion point)      receiver (notification point)
//!   rate limit ── packets ECT(0) ──►  queue long: CE  ──►  marked? one CNP per interval
//!        ▲                                                        │
//!        └────────────────────────── CNP ◄────────────────────────┘
//!
//!  CNP:         target = rate, rate *= 1 - alpha/2, alpha = (1-g) alpha + g
//!  no CNP:      alpha = (1-g) alpha every alpha_timer
//!  increase, every increase_timer and every increase_bytes:
//!    either less than F times since the CNP    rate = (target + rate)/2           fast recovery
//!    one of them F times                       target += R_AI, then likewise      additive
//!    both more than F times                    target += i R_HAI, then likewise   hyper
//! ```
//! A queue pair has no rate limit before the first CNP, and none after the rate has returned to the line rate.

use core::time::Duration;

use crate::congestion::Evidence;
use crate::time::Time;

/// Parameters of DCQCN. The defaults are those of the paper where it names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// Packets leave as ECN-capable, the receiver reports marks by CNPs, and the sender obeys CNPs. Without it a CNP
    /// takes a part of the window, once per window.
    pub enabled: bool,
    /// Rate in bytes per second at which there is no limit any more.
    pub line_rate: u64,
    /// The lowest rate in bytes per second.
    pub min_rate: u64,
    /// R_AI, bytes per second.
    pub additive_increase: u64,
    /// R_HAI, bytes per second.
    pub hyper_increase: u64,
    /// g is one over this.
    pub alpha_divisor: u32,
    /// Alpha decays once per this time without a CNP.
    pub alpha_timer: Duration,
    /// Time of an increase.
    pub increase_timer: Duration,
    /// Bytes of an increase.
    pub increase_bytes: u64,
    /// F: steps of fast recovery.
    pub fast_recovery_steps: u32,
    /// Shortest time between two CNPs of one queue pair.
    pub cnp_interval: Duration,
    /// Packets may leave this long before their time, several at once. At high rates one system call carries many;
    /// at low rates every packet waits. (Larger bursts lengthen an incast's queue and deepen the cuts.)
    pub burst: Duration,
}

impl Default for Dcqcn {
    fn default() -> Dcqcn {
        Dcqcn {
            enabled: true,
            line_rate: 12_500_000_000,
            min_rate: 5_000_000,
            additive_increase: 5_000_000,
            hyper_increase: 50_000_000,
            alpha_divisor: 256,
            alpha_timer: Duration::from_micros(55),
            increase_timer: Duration::from_micros(55),
            increase_bytes: 10_000_000,
            fast_recovery_steps: 5,
            cnp_interval: Duration::from_micros(50),
            burst: Duration::from_micros(10),
        }
    }
}

/// The limit ends after this many increases by time alone without one packet.
const MAX_IDLE_STEPS: u64 = 4000;

/// The rate limit of a queue pair that received CNPs.
#[derive(Debug)]
pub(crate) struct RateLimit {
    parameters: Dcqcn,
    /// Bytes per second.
    rate: f64,
    /// The rate that the first CNP found.
    found: f64,
    target: f64,
    alpha: f64,
    /// When alpha shrinks next.
    alpha_at: Time,
    /// When the time of the next increase has come.
    increase_at: Time,
    time_steps: u32,
    byte_steps: u32,
    bytes: u64,
    /// When the packets so far would have left at exactly the rate.
    free_at: Time,
    over: bool,
}

impl RateLimit {
    /// The first CNP has come at `now`, and packets left at about `rate` bytes per second.
    pub(crate) fn new(parameters: &Dcqcn, rate: u64, now: Time) -> RateLimit {
        let rate = rate.clamp(parameters.min_rate.max(1), parameters.line_rate.max(parameters.min_rate).max(1)) as f64;
        let mut limit = RateLimit {
            parameters: *parameters,
            rate,
            found: rate,
            target: rate,
            alpha: 1.0,
            alpha_at: now + parameters.alpha_timer.max(Duration::from_nanos(100)),
            increase_at: now + parameters.increase_timer.max(Duration::from_nanos(100)),
            time_steps: 0,
            byte_steps: 0,
            bytes: 0,
            free_at: now,
            over: false,
        };
        limit.on_cnp(Evidence::Proven, now);
        limit
    }

    /// Bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate as u64
    }

    /// Whether there is no need to limit any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// A CNP: cut the rate. Without evidence it leaves half of what the first one found.
    pub(crate) fn on_cnp(&mut self, evidence: Evidence, now: Time) {
        self.pass(now);
        let g = 1.0 / f64::from(self.parameters.alpha_divisor.max(1));
        self.target = self.rate;
        let least = match evidence {
            Evidence::None => self.rate.min(self.found / 2.0),
            Evidence::Proven | Evidence::FirstRoundTrip | Evidence::Loss => 1.0,
        };
        let least = least.max(self.parameters.min_rate as f64);
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(least);
        self.alpha = (1.0 - g) * self.alpha + g;
        (self.time_steps, self.byte_steps, self.bytes) = (0, 0, 0);
        self.alpha_at = now + self.parameters.alpha_timer;
        self.increase_at = now + self.parameters.increase_timer;
        self.over = false;
    }

    /// When the next packet may leave, if not now.
    pub(crate) fn blocked(&mut self, now: Time) -> Option<Time> {
        self.pass(now);
        let at = self.free_at - self.parameters.burst;
        (at > now && !self.over).then_some(at)
    }

    /// A packet of `bytes` leaves.
    pub(crate) fn sent(&mut self, bytes: u64, now: Time) {
        self.free_at = self.free_at.max(now) + self.time_of(bytes);
        self.bytes += bytes;
        while self.bytes >= self.parameters.increase_bytes.max(1) {
            self.bytes -= self.parameters.increase_bytes.max(1);
            self.byte_steps += 1;
            self.increase();
        }
    }

    fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos((bytes as f64 * 1e9 / self.rate) as u64)
    }

    /// Applies the timers that have passed: alpha decay and rate increases.
    fn pass(&mut self, now: Time) {
        let g = 1.0 / f64::from(self.parameters.alpha_divisor.max(1));
        let mut steps = 0;
        while self.alpha_at <= now && steps < MAX_IDLE_STEPS {
            self.alpha *= 1.0 - g;
            self.alpha_at = self.alpha_at + self.parameters.alpha_timer.max(Duration::from_nanos(100));
            steps += 1;
        }
        self.alpha_at = self.alpha_at.max(now);
        steps = 0;
        while self.increase_at <= now && !self.over {
            self.increase_at = self.increase_at + self.parameters.increase_timer.max(Duration::from_nanos(100));
            self.time_steps = self.time_steps.saturating_add(1);
            self.increase();
            steps += 1;
            self.over |= steps >= MAX_IDLE_STEPS;
        }
    }

    fn increase(&mut self) {
        let (most, least) = (self.time_steps.max(self.byte_steps), self.time_steps.min(self.byte_steps));
        let steps = self.parameters.fast_recovery_steps;
        if least > steps {
            self.target += f64::from(least - steps) * self.parameters.hyper_increase as f64;
        } else if most >= steps {
            self.target += self.parameters.additive_increase as f64;
        }
        let line = self.parameters.line_rate.max(1) as f64;
        self.target = self.target.min(line);
        self.rate = (self.target + self.rate) / 2.0;
        self.over |= self.rate >= line * 0.999;
    }
}

/// The notification point: whether a mark is to be told now.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    last: Option<Time>,
    pub(crate) due: bool,
}

impl Notifier {
    /// A marked packet has come.
    pub(crate) fn marked(&mut self, interval: Duration, now: Time) {
        if self.last.is_none_or(|last| now.since(last) >= interval) {
            self.last = Some(now);
            self.due = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 1_000_000_000;

    fn parameters() -> Dcqcn {
        Dcqcn { line_rate: LINE, min_rate: 1_000_000, ..Dcqcn::default() }
    }

    fn us(us: u64) -> Time {
        Time(us * 1000)
    }

    #[test]
    fn the_first_notification_halves_the_rate() {
        let limit = RateLimit::new(&parameters(), LINE, us(0));
        assert_eq!(limit.rate(), LINE / 2);
        assert_eq!(limit.target as u64, LINE);
    }

    #[test]
    fn fast_recovery_halves_the_distance_five_times() {
        let mut limit = RateLimit::new(&parameters(), LINE / 2, us(0));
        let mut missing = (LINE / 4) as f64;
        for step in 1..5 {
            limit.blocked(us(55 * step));
            missing /= 2.0;
            assert_eq!(limit.rate, (LINE / 2) as f64 - missing, "step {step}");
        }
    }

    #[test]
    fn after_fast_recovery_the_target_grows_by_steps() {
        let mut limit = RateLimit::new(&parameters(), LINE / 2, us(0));
        limit.blocked(us(55 * 10));
        let grown = limit.target - (LINE / 2) as f64;
        assert_eq!(grown, 6.0 * parameters().additive_increase as f64);
    }

    #[test]
    fn bytes_and_time_together_grow_hyper() {
        let mut limit = RateLimit::new(&parameters(), LINE / 2, us(0));
        limit.blocked(us(55 * 6));
        let before = limit.target;
        limit.sent(6 * parameters().increase_bytes, us(55 * 6));
        assert!(limit.target - before >= parameters().hyper_increase as f64);
    }

    #[test]
    fn notifications_at_every_interval_go_down_to_the_least_and_no_further() {
        let mut limit = RateLimit::new(&parameters(), LINE, us(0));
        for n in 1..1000 {
            limit.on_cnp(Evidence::Proven, us(50 * n));
        }
        assert_eq!(limit.rate(), parameters().min_rate);
        assert!(limit.alpha > 0.9);
    }

    #[test]
    fn without_evidence_half_of_what_was_found_is_left() {
        let mut limit = RateLimit::new(&parameters(), LINE, us(0));
        for n in 1..1000 {
            limit.on_cnp(Evidence::None, us(50 * n));
            assert!(limit.rate() >= LINE / 2 - 1, "{}", limit.rate());
        }
        limit.on_cnp(Evidence::Loss, us(50_000));
        assert!(limit.rate() < LINE / 2);
        let cut = limit.rate();
        limit.on_cnp(Evidence::None, us(50_001));
        assert_eq!(limit.rate(), cut, "it stays where evidence has brought it");
    }

    #[test]
    fn alpha_fades_and_cuts_become_gentle() {
        let mut limit = RateLimit::new(&parameters(), LINE / 4, us(0));
        limit.blocked(us(55 * 600));
        assert!(limit.alpha < 0.11, "{}", limit.alpha);
        let before = limit.rate;
        limit.on_cnp(Evidence::Proven, us(55 * 601));
        assert!(limit.rate > before * 0.94);
    }

    #[test]
    fn packets_leave_at_the_rate() {
        let fixed = Dcqcn { increase_timer: Duration::from_secs(1), ..parameters() };
        let mut limit = RateLimit::new(&fixed, LINE / 5, us(0)); // 100 MB/s
        let (mut now, mut sent) = (us(0), 0);
        while now < us(10_000) {
            match limit.blocked(now) {
                Some(at) => now = at,
                None => {
                    limit.sent(4096, now);
                    sent += 4096;
                }
            }
        }
        let expected = 1_000_000;
        assert!((expected..expected + 30_000).contains(&sent), "{sent} bytes in 10 ms");
    }

    #[test]
    fn in_the_end_there_is_no_limit() {
        let mut limit = RateLimit::new(&parameters(), LINE, us(0));
        assert!(!limit.is_over());
        limit.blocked(us(10_000_000));
        assert!(limit.is_over());
        assert_eq!(limit.blocked(us(10_000_000)), None);
    }

    #[test]
    fn parameters_of_zero_harm_nobody() {
        let zero = Dcqcn {
            line_rate: 0,
            min_rate: 0,
            alpha_divisor: 0,
            alpha_timer: Duration::ZERO,
            increase_timer: Duration::ZERO,
            increase_bytes: 0,
            ..Dcqcn::default()
        };
        let mut limit = RateLimit::new(&zero, 0, us(0));
        limit.blocked(us(1));
        limit.sent(10, us(1));
        limit.on_cnp(Evidence::Loss, us(2));
        assert!(limit.rate() >= 1);
    }

    #[test]
    fn one_notification_per_interval() {
        let mut notifier = Notifier::default();
        let mut told = 0;
        for at in 0..1000 {
            notifier.marked(Duration::from_micros(50), us(at));
            told += usize::from(core::mem::take(&mut notifier.due));
        }
        assert_eq!(told, 20);
    }
}
