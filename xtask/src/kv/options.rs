//! The arguments after `--kv`.

use std::path::PathBuf;

const PAGE: &str = "docs/kv-results.md";

const HELP: &str = "\
cargo xtask compare --kv [OPTIONS]

  --rounds N      times that each figure is measured, all programs in turn (default 3)
  --seconds S     time of each measurement (default 1)
  --quick         one short round, printed only
  --from DIR      a program that is built already, such as target/debug; prints the page and does not write it
  --page FILE     the file to write (default docs/kv-results.md)
";

/// The number of rounds, and where the page goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KvCompareOptions {
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    /// The directory of a program that is built already.
    pub(super) from: Option<PathBuf>,
    /// The file to write; none if the page is only printed.
    pub(super) page: Option<PathBuf>,
}

impl KvCompareOptions {
    /// # Errors
    /// The help, if an argument is wrong or asks for it.
    pub(super) fn parse(args: &[&str]) -> Result<KvCompareOptions, String> {
        let mut options = KvCompareOptions { rounds: 3, seconds: 1.0, from: None, page: Some(PAGE.into()) };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if *word == "--quick" {
                (options.rounds, options.seconds, options.page) = (1, 0.2, None);
                continue;
            }
            let value = *rest.next().ok_or(HELP)?;
            match *word {
                "--rounds" => options.rounds = value.parse().ok().filter(|rounds| *rounds > 0).ok_or(HELP)?,
                "--seconds" => {
                    options.seconds = value.parse().ok().filter(|s| (0.01..=60.0).contains(s)).ok_or(HELP)?
                }
                "--from" => (options.from, options.page) = (Some(value.into()), None),
                "--page" => options.page = Some(value.into()),
                _ => return Err(HELP.into()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let options = KvCompareOptions::parse(&["--rounds", "2", "--page", "x.md"]).unwrap();
        assert_eq!((options.rounds, options.page), (2, Some("x.md".into())));
        assert_eq!(KvCompareOptions::parse(&["--quick"]).unwrap().page, None);
        for wrong in [&["--rounds", "0"][..], &["--rounds"], &["--more", "1"]] {
            assert!(KvCompareOptions::parse(wrong).is_err());
        }
    }
}
