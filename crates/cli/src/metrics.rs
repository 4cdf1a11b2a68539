//! Figures for Prometheus, in its text format (version 0.0.4), and the health of a server, by HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::error::Error;

/// A client that says nothing for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request.
const LONGEST: u64 = 16 << 10;
/// The three pages.
const PLACES: &str = "the figures are at /metrics, the health is at /health/live and /health/ready\n";

/// Answers requests, until the process ends: `/metrics` with the text of the figures; `/health/live`; `/health/ready`, with
/// status 503 and the reason while `ready` gives one.
pub(crate) fn serve(
    address: &str,
    text: impl Fn() -> String,
    ready: impl Fn() -> Result<(), &'static str>,
) -> Result<(), Error> {
    let listener = TcpListener::bind(address).map_err(|error| Error::File(address.into(), error))?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    loop {
        let Ok((stream, _)) = listener.accept() else { continue };
        // A client that goes away is its own problem.
        let _ = answer(&stream, &text, &ready);
    }
}

fn answer(
    mut stream: &TcpStream,
    text: &impl Fn() -> String,
    ready: &impl Fn() -> Result<(), &'static str>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.take(LONGEST));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        line.clear();
    }
    let mut words = first.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", text()),
        (Some("GET"), Some("/health/live")) => ("200 OK", "live\n".into()),
        (Some("GET"), Some("/health/ready")) => match ready() {
            Ok(()) => ("200 OK", "ready\n".into()),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        _ => ("404 Not Found", PLACES.into()),
    };
    let kind = "text/plain; version=0.0.4";
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a first line.
    fn ask(line: &str, ready: Result<(), &'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        answer(&listener.accept().unwrap().0, &|| "figures\n".into(), &|| ready).unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        reply
    }

    #[test]
    fn each_page_has_its_status() {
        for (line, ready, status, body) in [
            ("GET /metrics", Err("no"), "200 OK", "figures"),
            ("GET /health/live", Err("the disk failed"), "200 OK", "live"),
            ("GET /health/ready", Ok(()), "200 OK", "ready"),
            ("GET /health/ready", Err("the disk failed"), "503 Service Unavailable", "the disk failed"),
            ("GET /health", Ok(()), "404 Not Found", PLACES.trim_end()),
            ("POST /metrics", Ok(()), "404 Not Found", PLACES.trim_end()),
        ] {
            let reply = ask(line, ready);
            let is_right =
                reply.starts_with(&format!("HTTP/1.1 {status}\r\n")) && reply.ends_with(&format!("\r\n\r\n{body}\n"));
            assert!(is_right, "{line}: {reply}");
        }
    }
}
