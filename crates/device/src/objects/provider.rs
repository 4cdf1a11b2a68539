//! The providers of devices.

use std::fmt;
use std::str::FromStr;

/// The software below the handles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Provider {
    /// Longarm's own devices, in this process.
    Longarm,
    /// The devices of the system, by its `libibverbs.so.1`.
    Verbs,
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(text: &str) -> Result<Provider, String> {
        match text {
            "longarm" => Ok(Provider::Longarm),
            "verbs" => Ok(Provider::Verbs),
            other => Err(format!("{other:?} is no provider: it is \"verbs\" or \"longarm\"")),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provider::Longarm => "longarm",
            Provider::Verbs => "verbs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_names() {
        for provider in [Provider::Longarm, Provider::Verbs] {
            assert_eq!(provider.to_string().parse(), Ok(provider));
        }
        assert!("mlx5".parse::<Provider>().unwrap_err().contains("\"mlx5\" is no provider"));
    }
}
