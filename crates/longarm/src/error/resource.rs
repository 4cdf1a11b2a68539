//! Errors of making and changing resources.

/// The reason why a resource could not be made or changed.
///
/// ```no_run
/// use longarm::{Device, ResourceError};
///
/// # fn example(device: Device) -> Result<(), Box<dyn std::error::Error>> {
/// # let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
/// match domain.rc(&cq).send_depth(1_000_000).build() {
///     Err(ResourceError::Invalid { rule, .. }) => println!("{rule}"),
///     other => drop(other?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// A size or count out of its range.
    #[error("{what} cannot be {is}: {rule}")]
    Invalid {
        /// The size or count.
        what: &'static str,
        /// The value asked for.
        is: u64,
        /// The rule for its value.
        rule: &'static str,
    },
    /// Two resources of different devices were used together.
    #[error("the {0} belongs to another device")]
    OtherDevice(&'static str),
    /// The device has no address that the resource could use.
    #[error("the device has no {0} address")]
    NoAddress(&'static str),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] device::Error),
}
