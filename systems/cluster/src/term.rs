//! Terms: how long a member may serve after a beat, and how long others wait before they depose it.
//!
//! ```text
//!  member     sends beat ───────────── serves for term − drift ─────────────┤ not any more
//!  store            └─ executes it                                          ┊
//!  observer                 └─ sees it ──────── waits for term + drift ──────┊──────────┤ may depose, if no beat came
//! ```
//! The member counts from the moment *before* it sent the beat, the observer from the moment *after* it saw it. So no clock
//! has to show the right time. Two clocks only have to measure the same duration, within one part of [`DRIFT_DIVISOR`] each.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock measures a duration with an error of one part in so many at most. (Quartz oscillators are within 100 ppm, and
/// NTP slews by 500 ppm at most.)
pub const DRIFT_DIVISOR: u64 = 1000;
/// The shortest term.
pub const SHORTEST_TERM: Duration = Duration::from_millis(200);
/// The longest term.
pub const LONGEST_TERM: Duration = Duration::from_secs(60);

/// Nanoseconds since this machine booted, the time included in which it slept. Setting the time of the day does not change it.
pub fn boot_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// The end of a term that began with a beat that was sent at `sent_ns`.
pub(crate) fn ends_ns(sent_ns: u64, term_ns: u64) -> u64 {
    sent_ns.saturating_add(term_ns - term_ns / DRIFT_DIVISOR)
}

/// The moment from which on no member can serve by a beat that was seen at `seen_ns`.
pub(crate) fn over_ns(seen_ns: u64, term_ns: u64) -> u64 {
    seen_ns.saturating_add(term_ns).saturating_add(term_ns / DRIFT_DIVISOR + 1)
}
