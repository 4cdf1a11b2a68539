//! The arguments after `--rpc`.

use std::path::PathBuf;

/// The targets.
pub(super) const TARGETS: [&str; 6] = ["R1", "R2", "R3", "R4", "R5", "R6"];
const PAGE: &str = "docs/rpc-results.md";

const HELP: &str = "\
cargo xtask compare --rpc [OPTIONS]

  --rounds N      times that each figure is measured, all programs in turn (default 5)
  --seconds S     time of each measurement (default 1)
  --clients N     clients of R4, which the page names (default 1000)
  --only R1,R3    only these targets; prints the page and does not write it
  --quick         one short round, printed only
  --from DIR      programs that are built already, such as target/debug; prints the page and does not write it
  --page FILE     the file to write (default docs/rpc-results.md)
";

/// The targets to measure, and the number of rounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcOptions {
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    /// Clients of R4.
    pub(super) clients: u32,
    pub(super) targets: Vec<&'static str>,
    /// The directory of programs that are built already.
    pub(super) from: Option<PathBuf>,
    /// The file to write; none if the page is only printed.
    pub(super) page: Option<PathBuf>,
}

impl RpcOptions {
    /// # Errors
    /// The help, if an argument is wrong or asks for it.
    pub(super) fn parse(args: &[&str]) -> Result<RpcOptions, String> {
        let mut options = RpcOptions {
            rounds: 5,
            seconds: 1.0,
            clients: 1000,
            targets: TARGETS.to_vec(),
            from: None,
            page: Some(PAGE.into()),
        };
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
                "--clients" => options.clients = value.parse().ok().filter(|n| (9..=10_000).contains(n)).ok_or(HELP)?,
                "--only" => (options.targets, options.page) = (targets(value)?, None),
                "--from" => (options.from, options.page) = (Some(value.into()), None),
                "--page" => options.page = Some(value.into()),
                _ => return Err(HELP.into()),
            }
        }
        Ok(options)
    }
}

fn targets(text: &str) -> Result<Vec<&'static str>, String> {
    let one = |word: &str| {
        let known = TARGETS.into_iter().find(|target| target.eq_ignore_ascii_case(word));
        known.ok_or_else(|| format!("--only {word}: the targets are {}", TARGETS.join(", ")))
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_or_refused() {
        let standard = RpcOptions::parse(&[]).unwrap();
        assert_eq!((standard.rounds, standard.targets.len(), standard.page), (5, 6, Some(PAGE.into())));
        let some = RpcOptions::parse(&["--only", "r1,R6", "--rounds", "2"]).unwrap();
        assert_eq!((some.rounds, &some.targets[..], some.page), (2, &["R1", "R6"][..], None));
        for wrong in [&["--only", "R7"][..], &["--rounds"], &["--rounds", "0"], &["--help"], &["x", "y"]] {
            assert!(RpcOptions::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
