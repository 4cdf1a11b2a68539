//! The place of the device's files.

use std::ffi::{CStr, CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use guest::environment;

use crate::boundary::{Errno, minus_one, set_errno};
use abi::*;

/// Names a generated tree, for programs that run without one at the usual place.
const SYSFS: &str = "LONGARM_SYSFS";
/// The variable of rdma-core.
const SYSFS_OF_RDMA_CORE: &str = "SYSFS_PATH";

fn path() -> &'static CString {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| {
        let named = [SYSFS, SYSFS_OF_RDMA_CORE].into_iter().find_map(environment::value);
        let path = named.unwrap_or_else(|| "/sys".into());
        CString::new(path.as_bytes()).unwrap_or_else(|_| c"/sys".into())
    })
}

/// The root of the tree.
pub(crate) fn root() -> &'static str {
    path().to_str().unwrap_or("/sys")
}

/// `ibv_get_sysfs_path`.
pub(crate) extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    path().as_ptr()
}

/// `ibv_read_sysfs_file`: the length of a file's text, without a newline at its end.
///
/// # Safety
/// Two strings, and `size` bytes to write.
pub(crate) unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: size_t,
) -> c_int {
    minus_one(|| {
        if dir.is_null() || file.is_null() || (buf.is_null() && size > 0) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `ibv_read_sysfs_file`: two strings, and `size` bytes to write.
        let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
        let path = Path::new(OsStr::from_bytes(dir.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
        // SAFETY: the contract of `ibv_read_sysfs_file`: two strings, and `size` bytes to write; made initialised
        // first.
        let buffer = unsafe {
            buf.write_bytes(0, size);
            std::slice::from_raw_parts_mut(buf.cast::<u8>(), size)
        };
        let mut len = std::fs::File::open(path)?.read(buffer)?;
        if len > 0 && buffer[len - 1] == b'\n' {
            len -= 1;
            buffer[len] = 0;
        } else if len < size {
            buffer[len] = 0;
        } else {
            return Err(Errno(libc::EMSGSIZE));
        }
        Ok(len as c_int)
    })
}

/// `ibv_read_ibdev_sysfs_file`, private but used: it takes a printf format, which is not served;
/// programs reach it only with devices of the kernel's.
pub(crate) extern "C" fn ibv_read_ibdev_sysfs_file() -> c_int {
    set_errno(Errno::NOT_SUPPORTED);
    -1
}
