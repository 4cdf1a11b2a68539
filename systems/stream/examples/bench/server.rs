//! The serving process. The first byte of a connection says what it is for.

use std::io;

use longarm_stream::StreamConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::report::processor_ns;
use crate::transport::{AnyStream, Transport};

/// Give back messages of the length that follows.
pub(crate) const ECHO: u8 = b'E';
/// Take everything, and tell how much it was.
pub(crate) const SINK: u8 = b'S';
/// Tell the processor time of this process.
pub(crate) const TIME: u8 = b'T';

pub(crate) async fn serve(transport: Transport, config: &StreamConfig) -> io::Result<()> {
    let (listener, address) = transport.listen(config).await?;
    println!("{address}");
    loop {
        let stream = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream).await {
                eprintln!("the server: {error}");
            }
        });
    }
}

async fn serve_one(mut stream: Box<dyn AnyStream>) -> io::Result<()> {
    match stream.read_u8().await? {
        ECHO => {
            let mut message = vec![0; stream.read_u32().await? as usize];
            while stream.read_exact(&mut message).await.is_ok() {
                stream.write_all(&message).await?;
            }
            Ok(())
        }
        SINK => {
            let (mut bytes, mut count) = (vec![0; 1 << 20], 0u64);
            loop {
                match stream.read(&mut bytes).await? {
                    0 => break,
                    len => count += len as u64,
                }
            }
            stream.write_u64(count).await?;
            stream.shutdown().await
        }
        TIME => {
            stream.write_u64(processor_ns()).await?;
            stream.shutdown().await
        }
        other => Err(io::Error::other(format!("{other} is no purpose"))),
    }
}
