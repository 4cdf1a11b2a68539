//! `longarm perf`: one operation, measured between two processes.
//!
//! The client drives: it sends the server the test over a TCP connection, and both make queue pairs
//! and connect them. Then the client measures, and at the end it asks the server for its results.

mod client;
mod command;
mod control;
mod endpoint;
mod latency;
mod local;
mod packets;
mod server;
mod spec;
mod stats;
mod stopped;
mod stream;
mod work;

pub(crate) use client::{Measurement, measure};
pub(crate) use command::{PerfArgs, ServeArgs, run, serve, server_address};
pub(crate) use control::{ControlConnection, ControlReply, ControlRequest, expect_finish};
pub(crate) use endpoint::{EndpointInfo, Endpoints, Shape, device_name, open};
pub(crate) use local::LocalServer;
pub(crate) use packets::want_packets;
pub(crate) use spec::{Op, Test, TestMode, TestTransport};
pub(crate) use stats::{Latency, LatencySummary};
pub(crate) use work::work_request;
