//! Names of services and methods.

/// The service and the method in a path `/package.Service/Method`.
pub(super) fn names(path: &'static str) -> (&'static str, &'static str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.rsplit_once('/').unwrap_or(("", path))
}
