//! Figures for Prometheus, in its text format (version 0.0.4), by HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::error::Error;

/// A client that says nothing for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const LONGEST: u64 = 16 << 10;

/// Answers requests with the text of the figures, until the process ends.
pub(crate) fn serve(address: &str, text: impl Fn() -> String) -> Result<(), Error> {
    let listener = TcpListener::bind(address).map_err(|error| Error::File(address.into(), error))?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    loop {
        let Ok((stream, _)) = listener.accept() else { continue };
        // A client that goes away is its own problem.
        let _ = answer(&stream, &text);
    }
}

fn answer(mut stream: &TcpStream, text: &impl Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.take(LONGEST));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        line.clear();
    }
    let (status, body) = match first.starts_with("GET /metrics ") {
        true => ("200 OK", text()),
        false => ("404 Not Found", "the figures are at /metrics\n".into()),
    };
    let kind = "text/plain; version=0.0.4";
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}
