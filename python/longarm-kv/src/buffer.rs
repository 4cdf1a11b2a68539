//! Bytes of Python objects: text, `bytes`, and everything with the buffer protocol, such as arrays of NumPy.

use std::borrow::Cow;
use std::ptr;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// The bytes of an object. Those of `bytes` and `str` never change, so they are borrowed. Others are copied: a thread may change
/// them while the operation waits.
pub(crate) fn bytes_of<'a>(object: &'a Bound<'_, PyAny>, role: &str) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str()?.as_bytes()));
    }
    let buffer = contiguous(object, role)?;
    let (from, len_bytes) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    let mut bytes = Vec::<u8>::with_capacity(len_bytes);
    if len_bytes > 0 {
        // SAFETY: The exporter keeps `len_bytes` contiguous bytes at `from` valid until the buffer is released, which is later.
        // `bytes` has room for them. This thread holds the interpreter's lock, as all do that change them.
        unsafe {
            ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len_bytes);
            bytes.set_len(len_bytes);
        }
    }
    Ok(Cow::Owned(bytes))
}

/// A writable buffer of a Python object. While it lives, the object cannot be resized.
pub(crate) struct OutBuffer(PyUntypedBuffer);

impl OutBuffer {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<OutBuffer> {
        let buffer = contiguous(object, "a buffer")?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        Ok(OutBuffer(buffer))
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.0.len_bytes()
    }

    /// Copies bytes to its front. False, and nothing is copied, if they are too many.
    pub(crate) fn fill(&self, _: Python<'_>, bytes: &[u8]) -> bool {
        if bytes.len() > self.0.len_bytes() {
            return false;
        }
        if !bytes.is_empty() {
            // SAFETY: The buffer is writable, contiguous and at least as long as `bytes`, and its exporter keeps it valid until
            // it is released. `bytes` is memory of the client, which no Python object has. This thread holds the interpreter's
            // lock.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.buf_ptr().cast::<u8>(), bytes.len()) }
        }
        true
    }
}

fn contiguous(object: &Bound<'_, PyAny>, role: &str) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object).map_err(|error| {
        let name = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        let refused =
            PyTypeError::new_err(format!("{role} is str, bytes or a buffer such as an array; {name}: {error}"));
        refused.set_cause(object.py(), Some(error));
        refused
    })?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous: numpy.ascontiguousarray copies an array"));
    }
    Ok(buffer)
}
