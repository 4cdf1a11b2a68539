//! `longarm perf`: one operation, measured between two processes.
//!
//! The client drives: it sends the server the test over a TCP connection, and both make queue pairs
//! and connect them: by their numbers, or by address. Then the client measures, and at the end it asks the server for its results.

mod by_address;
mod client;
mod command;
mod control;
mod credits;
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

pub(crate) use by_address::MeetingListener;
pub(crate) use client::{Measurement, join, measure};
pub(crate) use command::{PerfArgs, ServeArgs, run, serve, server_address, sizes};
pub(crate) use control::{ControlConnection, ControlReply, ControlRequest, expect_finish};
pub(crate) use endpoint::{EndpointInfo, Endpoints, Shape, default_address, device_name, open};
pub(crate) use latency::WaitLimit;
pub(crate) use local::LocalServer;
pub(crate) use packets::want_packets;
pub(crate) use server::begin;
pub(crate) use spec::{Op, Test, TestMode, TestTransport};
pub(crate) use stats::{Latency, LatencySummary};
pub(crate) use work::work_request;
