//! Versions as Python objects.

use std::hash::{DefaultHasher, Hash, Hasher};

use longarm_kv::KvVersion;
use pyo3::prelude::*;

use crate::errors::InvalidArgumentError;

/// The version of a key's value, for compare_and_put. Each change makes another one, and no version comes again.
#[pyclass(frozen, eq, module = "longarm_kv", from_py_object)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) KvVersion);

impl From<KvVersion> for Version {
    fn from(version: KvVersion) -> Version {
        Version(version)
    }
}

#[pymethods]
impl Version {
    /// The version that `str` wrote so.
    #[new]
    fn parse(text: &str) -> PyResult<Version> {
        let refused = || InvalidArgumentError::new_err(format!("{text:?} is no version"));
        KvVersion::parse(text).map(Version).ok_or_else(refused)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Version('{}')", self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }
}
