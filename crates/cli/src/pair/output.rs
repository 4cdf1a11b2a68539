//! Copies the outputs of both sides, line by line, each line with the name of its side.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Copies lines until both ends of all pipes are closed.
#[derive(Debug)]
pub(super) struct Outputs {
    sender: Option<Sender<()>>,
    /// Disconnects when the last copying thread ends.
    done: Receiver<()>,
}

impl Outputs {
    pub(super) fn new() -> Outputs {
        let (sender, done) = channel();
        Outputs { sender: Some(sender), done }
    }

    /// Copies a child's outputs to those of this process.
    pub(super) fn copy(&mut self, name: &'static str, child: &mut Child) {
        if let Some(stdout) = child.stdout.take() {
            self.start(move || lines(stdout, name, io::stdout));
        }
        if let Some(stderr) = child.stderr.take() {
            self.start(move || lines(stderr, name, io::stderr));
        }
    }

    fn start(&mut self, copy: impl FnOnce() -> io::Result<()> + Send + 'static) {
        let alive = self.sender.clone();
        thread::spawn(move || {
            // The copy fails if the reader of the output is gone; there is nothing to do then.
            let _ = copy();
            drop(alive);
        });
    }

    /// Waits until all output is copied, but at most `patience`: a stray process may keep a pipe open.
    pub(super) fn finish(mut self, patience: Duration) {
        self.sender = None;
        let deadline = Instant::now() + patience;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            if let Err(RecvTimeoutError::Disconnected) = self.done.recv_timeout(left) {
                return;
            }
        }
    }
}

fn lines<W: Write>(from: impl Read, name: &str, to: impl Fn() -> W) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        // One write for each line, so that lines do not mix.
        let text = format!("{name}│ {}\n", String::from_utf8_lossy(&line));
        let mut to = to();
        to.write_all(text.as_bytes())?;
        to.flush()?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct SharedBuffer<'a>(&'a Mutex<Vec<u8>>);

    impl Write for SharedBuffer<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_has_its_side() {
        let sink = Mutex::new(Vec::new());
        lines(&b"one\n\ntwo \xff"[..], "client", || SharedBuffer(&sink)).unwrap();
        let said = String::from_utf8(sink.into_inner().unwrap()).unwrap();
        assert_eq!(said, "client│ one\nclient│ \nclient│ two \u{fffd}\n");
    }
}
