//! Faults on purpose, and the same ones again from the same seed.
//!
//! A [`FaultPlan`] says how often packets are lost, doubled, swapped, delayed or
//! damaged and how often a receiver pretends not to be ready. An [`Injector`]
//! turns the plan into one [`Verdict`] per packet. Applying a verdict (holding
//! a packet back, flipping its bit) is the business of whoever moves packets: the
//! device on the real path, the simulator on its virtual clock.
//!
//! ```
//! use longarm_faults::{FaultPlan, Injector};
//!
//! let plan: FaultPlan = "seed=7,loss=0.05,reorder=0.02,delay=100us".parse()?;
//! let injector = Injector::new(plan);
//! let verdict = injector.judge();
//! assert_eq!(verdict, Injector::new(plan).judge()); // the same seed, the same fate
//! # Ok::<(), longarm_faults::PlanError>(())
//! ```
//!
//! The crate knows no packets, sockets or clocks, and nothing here is secret:
//! [`Rng`] is predictable by design and must never make a key.
#![forbid(unsafe_code)]

mod injector;
mod plan;
mod rng;
mod text;

pub use injector::{Corruption, Hold, Injector, Verdict};
pub use plan::FaultPlan;
pub use rng::Rng;
pub use text::PlanError;
