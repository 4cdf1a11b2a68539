//! `longarm rpc`: measures the RPC system, and calls methods of its servers by name.

mod bench;
mod call;
mod demo;
mod proof;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Measure requests and replies over RDMA, and call methods of servers by name
#[derive(Args, Debug)]
pub(crate) struct RpcArgs {
    #[command(subcommand)]
    command: RpcCommand,
}

#[derive(Subcommand, Debug)]
enum RpcCommand {
    Bench(bench::RpcBenchArgs),
    Serve(demo::DemoServeArgs),
    List(call::ListArgs),
    Describe(call::DescribeArgs),
    Call(call::CallArgs),
}

/// `longarm rpc`
pub(crate) fn run(args: &RpcArgs) -> Result<(), Error> {
    match &args.command {
        RpcCommand::Bench(args) => bench::run(args),
        RpcCommand::Serve(args) => demo::serve(args),
        RpcCommand::List(args) => call::list(args),
        RpcCommand::Describe(args) => call::describe(args),
        RpcCommand::Call(args) => call::call(args),
    }
}
