//! The asking process, which measures.

use std::io;
use std::time::Instant;

use longarm_stream::StreamConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::report::{Row, processor_ns};
use crate::server::{ECHO, SINK, TIME};
use crate::transport::Transport;
use crate::{Options, Question};

/// Connections that are being made at once.
const AT_ONCE: u32 = 64;

/// Measures one transport.
pub(crate) async fn ask(options: &Options, transport: Transport, address: &str) -> io::Result<Vec<Row>> {
    let asked = Asked { transport, address: address.to_owned(), config: options.config() };
    let mut rows = Vec::new();
    for question in &options.only {
        match question {
            Question::Latency => rows.extend(asked.latency(options.rounds, options.size).await?),
            Question::Bandwidth => {
                for write_bytes in &options.write_bytes {
                    rows.extend(asked.bandwidth(*write_bytes, options.stream_bytes).await?);
                }
            }
            Question::Connections => rows.extend(asked.connections(options.connections).await?),
        }
    }
    Ok(rows)
}

#[derive(Clone)]
struct Asked {
    transport: Transport,
    address: String,
    config: StreamConfig,
}

impl Asked {
    fn row(&self, what: &str, value: f64) -> Row {
        Row { transport: self.transport.name().to_owned(), what: what.to_owned(), value }
    }

    /// The processor time of both processes so far.
    async fn processor_ns(&self) -> io::Result<u64> {
        let mut stream = self.transport.connect(&self.address, &self.config).await?;
        stream.write_u8(TIME).await?;
        Ok(stream.read_u64().await? + processor_ns())
    }

    async fn latency(&self, rounds: u32, size: u32) -> io::Result<Vec<Row>> {
        let mut stream = self.transport.connect(&self.address, &self.config).await?;
        stream.write_u8(ECHO).await?;
        stream.write_u32(size).await?;
        let mut message = vec![7; size as usize];
        let mut times = Vec::with_capacity(rounds as usize);
        let mut before = 0;
        for round in 0..rounds + rounds / 10 {
            if round == rounds / 10 {
                before = self.processor_ns().await?;
                times.clear();
            }
            let start = Instant::now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
            times.push(start.elapsed().as_nanos() as f64 / 2e3);
        }
        let busy = self.processor_ns().await? - before;
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[(times.len() as f64 * part) as usize];
        Ok(vec![
            self.row(&format!("{size} B one way, median (µs)"), at(0.5)),
            self.row(&format!("{size} B one way, 99 % (µs)"), at(0.99)),
            self.row(&format!("{size} B one way, processor (µs)"), busy as f64 / 2e3 / f64::from(rounds)),
        ])
    }

    async fn bandwidth(&self, write_bytes: usize, stream_bytes: u64) -> io::Result<Vec<Row>> {
        let before = self.processor_ns().await?;
        let mut stream = self.transport.connect(&self.address, &self.config).await?;
        let bytes = vec![7; write_bytes];
        stream.write_u8(SINK).await?;
        let start = Instant::now();
        for _ in 0..stream_bytes / write_bytes as u64 {
            stream.write_all(&bytes).await?;
        }
        stream.shutdown().await?;
        let count = stream.read_u64().await? as f64;
        let gigabytes = count / 1e9;
        let rate = gigabytes / start.elapsed().as_secs_f64();
        let busy = (self.processor_ns().await? - before) as f64 / 1e9;
        let what = format!("{} KiB writes", write_bytes >> 10);
        Ok(vec![
            self.row(&format!("{what} (GB/s)"), rate),
            self.row(&format!("{what}, processor (s/GB)"), busy / gigabytes),
        ])
    }

    /// Many connections at once, each with one round trip; then all end.
    async fn connections(&self, count: u32) -> io::Result<Vec<Row>> {
        let before = self.processor_ns().await?;
        let start = Instant::now();
        let (mut joining, mut streams) = (JoinSet::new(), Vec::new());
        for _ in 0..count {
            if joining.len() >= AT_ONCE as usize {
                streams.extend(joining.join_next().await.transpose()?.transpose()?);
            }
            let asked = self.clone();
            joining.spawn(async move {
                let mut stream = asked.transport.connect(&asked.address, &asked.config).await?;
                stream.write_u8(ECHO).await?;
                stream.write_u32(1).await?;
                stream.write_u8(1).await?;
                stream.read_u8().await?;
                io::Result::Ok(stream)
            });
        }
        while let Some(joined) = joining.join_next().await {
            streams.push(joined??);
        }
        let made = start.elapsed();
        drop(streams);
        let busy = self.processor_ns().await? - before;
        let what = format!("{count} connections");
        Ok(vec![
            self.row(&format!("{what} with a round trip each (ms)"), made.as_secs_f64() * 1e3),
            self.row(&format!("{what}, processor (ms)"), busy as f64 / 1e6),
        ])
    }
}
