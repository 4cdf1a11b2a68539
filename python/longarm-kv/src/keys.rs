//! An iterator over keys.

use std::collections::VecDeque;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::table::Table;

/// The keys with a prefix, fetched some at a time. A key that is there throughout comes exactly once.
#[pyclass(module = "longarm_kv")]
pub(crate) struct KeyIterator {
    table: Py<Table>,
    prefix: Vec<u8>,
    count: u32,
    /// Zero at the beginning.
    cursor: u64,
    is_over: bool,
    keys: VecDeque<Vec<u8>>,
}

impl KeyIterator {
    pub(crate) fn new(table: Py<Table>, prefix: Vec<u8>, count: u32) -> KeyIterator {
        KeyIterator { table, prefix, count, cursor: 0, is_over: false, keys: VecDeque::new() }
    }
}

#[pymethods]
impl KeyIterator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        while self.keys.is_empty() && !self.is_over {
            let (cursor, count, prefix) = (self.cursor, self.count, &self.prefix);
            let shared = self.table.get().shared();
            let (keys, next) = shared.with(py, |table| table.scan(cursor, count, prefix))?;
            (self.keys, self.cursor, self.is_over) = (keys.into(), next, next == 0);
        }
        Ok(self.keys.pop_front().map(|key| PyBytes::new(py, &key)))
    }
}
