//! A client and a server in this way, on a network that loses, doubles, delays and reorders packets, on a virtual clock.

mod calls;
mod credits;
mod hostile;
mod network;
mod world;
