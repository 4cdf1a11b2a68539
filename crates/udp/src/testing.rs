//! Network namespaces for tests. Tests that need UDP port 4791 or their own interfaces then do not disturb
//! each other or the machine.
//!
//! Not part of the public interface; behind the feature `testing`, for the tests of the other crates.
//!
//! ```no_run
//! # use longarm_udp as udp;
//! #[test]
//! fn two_hosts_talk() {
//!     udp::testing::in_new_netns(|| {
//!         let (left, right) = udp::testing::hosts(1500);
//!         let group = right.run(|| udp::PortGroup::bind(8).unwrap());
//!         // …
//!     });
//! }
//! ```

mod capture;
mod ethtool;
mod host;
mod link;
mod netns;

pub use capture::{Capture, Captured};
pub use host::{NetHost, hosts, with_receive_coalescing, without_segmentation_offload};
pub use link::TestInterface;
pub use netns::in_new_netns;
