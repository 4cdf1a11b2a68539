//! Settings of a client, from the arguments of Python.

use std::time::Duration;

use longarm_kv::{GetWay, KvOptions, KvStats, PutExpiry, PutWay, TableSecret};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer::bytes_of;
use crate::errors::InvalidArgumentError;

/// The arguments by which a table is opened, as Python names them.
pub(crate) struct OpenArguments<'a, 'py> {
    pub(crate) secret: Option<&'a Bound<'py, PyAny>>,
    pub(crate) timeout: f64,
    pub(crate) get: &'a str,
    pub(crate) put: &'a str,
    pub(crate) locations: usize,
    pub(crate) outstanding: usize,
}

impl OpenArguments<'_, '_> {
    pub(crate) fn options(&self) -> PyResult<KvOptions> {
        let (get, put) =
            (way("get", self.get, &GetWay::ALL, GetWay::name)?, way("put", self.put, &PutWay::ALL, PutWay::name)?);
        let timeout = Duration::from_nanos(nanoseconds(self.timeout)?);
        let (secret, locations, outstanding) = (secret_of(self.secret)?, self.locations, self.outstanding);
        Ok(KvOptions { secret, get, put, locations, outstanding, timeout, ..KvOptions::default() })
    }
}

fn way<W: Copy>(argument: &str, wanted: &str, ways: &[W], name: fn(W) -> &'static str) -> PyResult<W> {
    ways.iter().copied().find(|way| name(*way) == wanted).ok_or_else(|| {
        let names: Vec<_> = ways.iter().map(|way| name(*way)).collect();
        InvalidArgumentError::new_err(format!("{argument}={wanted:?}: the ways are {}", names.join(", ")))
    })
}

fn secret_of(secret: Option<&Bound<'_, PyAny>>) -> PyResult<Option<TableSecret>> {
    let Some(secret) = secret else { return Ok(None) };
    let secret = TableSecret::new(bytes_of(secret, "a secret")?);
    secret.map(Some).map_err(|error| InvalidArgumentError::new_err(error.to_string()))
}

pub(crate) fn nanoseconds(seconds: f64) -> PyResult<u64> {
    let duration = Duration::try_from_secs_f64(seconds)
        .map_err(|_| InvalidArgumentError::new_err(format!("{seconds} is no number of seconds")))?;
    Ok(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The expiry of a value that is put.
pub(crate) fn expiry_of(ttl: Option<f64>) -> PyResult<PutExpiry> {
    ttl.map_or(Ok(PutExpiry::Never), |seconds| nanoseconds(seconds).map(PutExpiry::AfterNs))
}

/// The figures of a client.
pub(crate) fn stats_of<'py>(py: Python<'py>, stats: KvStats) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    for (name, figure) in [
        ("one_sided_gets", stats.one_sided_gets),
        ("reads", stats.reads),
        ("device_gets", stats.device_gets),
        ("rpc_gets", stats.rpc_gets),
        ("one_sided_ranges", stats.one_sided_ranges),
        ("rpc_ranges", stats.rpc_ranges),
        ("one_sided_puts", stats.one_sided_puts),
        ("attached", stats.attached),
    ] {
        figures.set_item(name, figure)?;
    }
    Ok(figures)
}
