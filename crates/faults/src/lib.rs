//! Deliberate faults, reproducible from a seed.
//!
//! A [`FaultPlan`] tells how often packets are lost, doubled, swapped, delayed or damaged, and how often a
//! receiver pretends not to be ready. An [`Injector`] turns the plan into one [`Verdict`] per packet. The
//! code that moves packets applies the verdict (holds a packet back, flips its bit): the device on the real
//! path, the simulator on its virtual clock.
//!
//! ```
//! use longarm_faults::{FaultPlan, Injector};
//!
//! let plan: FaultPlan = "seed=7,loss=0.05,reorder=0.02,delay=100us".parse()?;
//! let injector = Injector::new(plan);
//! let verdict = injector.judge();
//! assert_eq!(verdict, Injector::new(plan).judge()); // the same seed, the same verdict
//! # Ok::<(), longarm_faults::PlanError>(())
//! ```
//!
//! The crate does not know packets, sockets or clocks. It has no secrets: [`Rng`] is predictable by design
//! and must never make a key.
#![forbid(unsafe_code)]

mod injector;
mod plan;
mod rng;
mod text;

pub use injector::{Corruption, Hold, Injector, Verdict};
pub use plan::FaultPlan;
pub use rng::Rng;
pub use text::PlanError;
