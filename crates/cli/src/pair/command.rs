//! The command line of `longarm pair`, and its steps.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use super::arguments;
use super::hosts::Hosts;
use super::output::Outputs;
use super::side::code;
use super::wait::{self, Readiness};
use crate::run::{RunOptions, StartFailure, resolve};

/// Run a server and a client of an unmodified RDMA program side by side
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PairArgs {
    #[command(flatten)]
    options: RunOptions,
    /// Arguments for the server only, as one text
    #[arg(long, value_name = "ARGS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    server_args: String,
    /// Arguments for the client only, as one text
    #[arg(long, value_name = "ARGS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    client_args: String,
    /// Server address that the client gets [default: 127.0.0.1]
    #[arg(long, conflicts_with = "namespaces")]
    address: Option<String>,
    /// Seconds until the client starts if the server does not listen
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    wait: f64,
    /// Seconds after which both sides are ended, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
    /// Run on two hosts made of network namespaces, joined by a wire with MTU 1500
    #[arg(long)]
    namespaces: bool,
    /// Program, and arguments of both sides; {server} stands for the address, by default the client's last argument
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  longarm pair -- ib_write_bw -s 65536
  longarm pair --faults seed=7,loss=0.02 -- ib_send_lat
  longarm pair --namespaces -- ibv_rc_pingpong -g 0
  longarm pair --server-args=-s --client-args='-c -a {server}' -- rping -C 10 -v

Exit status: the client's, or the server's if that fails by itself; 124 after --timeout, 125
if Longarm itself fails.";

/// The longest wait for remaining output after both sides have ended.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if Duration::try_from_secs_f64(seconds).is_ok() => Ok(seconds),
        _ => Err("not a number of seconds".into()),
    }
}

/// `longarm pair`
pub(crate) fn run(args: &PairArgs) -> ExitCode {
    ExitCode::from(both(args).unwrap_or_else(|failure| {
        eprintln!("longarm: {failure}");
        failure.code()
    }))
}

fn both(args: &PairArgs) -> Result<u8, StartFailure> {
    let [name, shared @ ..] = args.command.as_slice() else {
        return Err(StartFailure::Usage("no program is given".into()));
    };
    args.options.check()?;
    let (server_args, client_args) = (arguments::split(&args.server_args)?, arguments::split(&args.client_args)?);
    let program = resolve(name, &args.options)?;
    let hosts = match args.namespaces {
        true => Hosts::two(&program, &args.options)?,
        false => Hosts::one(&program, &args.options, args.address.as_deref())?,
    };
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));

    let mut outputs = Outputs::new();
    let mut server = hosts.start_server(&program, &arguments::server(shared, &server_args))?;
    outputs.copy(server.name, server.child());
    let patience = Duration::from_secs_f64(args.timeout.map_or(args.wait, |timeout| timeout.min(args.wait)));
    match wait::until_ready(&mut server, patience) {
        Readiness::Listens => args.options.report(|| "the server listens".into()),
        Readiness::Silent => args.options.report(|| "the server does not listen; starting the client anyway".into()),
        Readiness::Ended => {
            outputs.finish(OUTPUT_PATIENCE);
            eprintln!("longarm: the server ended before a client came");
            let code = server.ended().map_or(1, code);
            return Ok(if code == 0 { 1 } else { code });
        }
    }
    let mut client = hosts.start_client(&program, &arguments::client(shared, &client_args, hosts.address()))?;
    outputs.copy(client.name, client.child());
    let code = wait::until_over(&mut server, &mut client, deadline);
    outputs.finish(OUTPUT_PATIENCE);
    Ok(code)
}
