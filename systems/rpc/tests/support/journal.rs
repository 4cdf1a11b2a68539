//! The server's journal of executed requests, and the clients' list of outcomes: they must agree.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;

use longarm_rpc::{Executed, Status};

use super::file;

/// Numbers of requests whose handlers ran, in a file that outlives the server.
pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn open() -> Journal {
        Journal(OpenOptions::new().create(true).append(true).open(file("journal")).unwrap())
    }

    /// Notes a request, before its handler returns.
    pub(crate) fn note(&self, number: u64) {
        (&self.0).write_all(&number.to_le_bytes()).unwrap();
    }

    /// Requests that have run.
    pub(crate) fn count() -> u64 {
        std::fs::metadata(file("journal")).map_or(0, |metadata| metadata.len() / 8)
    }

    /// The number of runs of each request.
    fn runs() -> HashMap<u64, u32> {
        let bytes = std::fs::read(file("journal")).unwrap_or_default();
        let mut runs = HashMap::new();
        for number in bytes.chunks_exact(8) {
            *runs.entry(u64::from_le_bytes(number.try_into().unwrap())).or_default() += 1;
        }
        runs
    }

    /// Begins anew.
    pub(crate) fn clear() {
        let _ = std::fs::remove_file(file("journal"));
    }
}

/// The ends of calls, by their numbers.
#[derive(Default)]
pub(crate) struct Outcomes {
    ended: HashMap<u64, Result<(), Status>>,
    pub(crate) ok: u64,
    pub(crate) unknown: u64,
}

impl Outcomes {
    /// A call has ended.
    pub(crate) fn end(&mut self, number: u64, result: Result<(), Status>) {
        match &result {
            Ok(()) => self.ok += 1,
            Err(status) if status.executed() == Executed::Unknown => self.unknown += 1,
            Err(_) => {}
        }
        assert!(self.ended.insert(number, result).is_none(), "call {number} has ended twice");
    }

    pub(crate) fn merge(&mut self, other: Outcomes) {
        other.ended.into_iter().for_each(|(number, result)| self.end(number, result));
    }

    /// Compares all outcomes with the journal.
    pub(crate) fn must_be_true(&self, context: &str) {
        let runs = Journal::runs();
        for (number, result) in &self.ended {
            let ran = runs.get(number).copied().unwrap_or_default();
            let is_true = match result {
                Ok(()) => ran == 1,
                Err(status) => match status.executed() {
                    Executed::No => ran == 0,
                    Executed::Yes => ran == 1,
                    Executed::Unknown => ran <= 1,
                },
            };
            assert!(is_true, "{context}: call {number:#x} ran {ran} times and ended with {result:?}");
        }
        let twice = runs.iter().find(|(_, runs)| **runs > 1);
        assert!(twice.is_none(), "{context}: (number, runs) {twice:?}");
    }
}
