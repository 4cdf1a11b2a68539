//! `longarm rpc list`, `describe` and `call`: by reflection, with JSON.

mod channel;

use std::io::Read;
use std::time::Duration;

use clap::Args;
use longarm_rpc::{Client, ClientOptions, JsonClient, Request, Way};

use super::proof::ClientProof;
use crate::error::Error;
use channel::{PollingChannel, finish};

/// List the services of a server, and their methods
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ServerChoice,
}

/// Show a service, a method, a message or an enum of a server in the words of a .proto file
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    server: ServerChoice,
    /// Name with its package, such as `demo.Echo`, `demo.Echo/Say` or `demo.SayRequest`
    symbol: String,
}

/// Call a method of a server, with JSON
#[derive(Args, Debug)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    server: ServerChoice,
    /// The method, as package.Service/Method
    method: String,
    /// The request, a JSON object; `-` reads it from standard input
    #[arg(default_value = "{}")]
    json: String,
}

/// The server and the way to it.
#[derive(Args, Debug)]
struct ServerChoice {
    /// The server, as HOST:PORT
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// The way that carries requests: ring, herd, datagram, immediate or fetch [default: client and server choose]
    #[arg(long)]
    way: Option<Way>,
    /// Seconds for connecting, and for each call
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = crate::rpc::call::seconds)]
    timeout: f64,
    #[command(flatten)]
    proof: ClientProof,
}

/// Parses a time in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.001..=86_400.0).contains(value));
    value.ok_or_else(|| "give seconds, from 0.001 to 86400".into())
}

impl ServerChoice {
    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    fn connect(&self) -> Result<JsonClient<PollingChannel>, Error> {
        let mut options = ClientOptions { way: self.way, connect_timeout: self.timeout(), ..ClientOptions::default() };
        self.proof.add_to(&mut options, &self.server)?;
        let client = Client::connect(self.server.as_str(), &options)?;
        Ok(JsonClient::new(PollingChannel::new(client, self.timeout())))
    }
}

/// `longarm rpc list`
pub(crate) fn list(args: &ListArgs) -> Result<(), Error> {
    let mut client = args.server.connect()?;
    for service in finish(client.services())? {
        let note = if service.is_described { "" } else { "   (without a description: `call` needs one)" };
        println!("{}{note}", service.name);
        for path in service.methods {
            println!("  {}", path.trim_start_matches('/'));
        }
    }
    Ok(())
}

/// `longarm rpc describe`
pub(crate) fn describe(args: &DescribeArgs) -> Result<(), Error> {
    let mut client = args.server.connect()?;
    println!("{}", finish(client.describe(&args.symbol))?.trim_end());
    Ok(())
}

/// `longarm rpc call`
pub(crate) fn call(args: &CallArgs) -> Result<(), Error> {
    let mut text = String::new();
    let json = match args.json.as_str() {
        "-" => {
            std::io::stdin().read_to_string(&mut text)?;
            text.as_str()
        }
        json => json,
    };
    let mut client = args.server.connect()?;
    println!("{}", finish(client.call(&args.method, Request::new(json)))?.into_inner());
    Ok(())
}
