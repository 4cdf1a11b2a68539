//! The command line of `cargo xtask package`.

use std::path::PathBuf;

use super::build::target_directory;

const HELP: &str = "\
cargo xtask package [--out DIR] [--from DIR] [--try] [FORMAT...]

  FORMAT      deb, tarball, wheel, container (its recipe), cargo (`cargo install`; only tried); default: all
  --out DIR   where the packages go (default: target/packages)
  --from DIR  package the build in this directory, e.g. target/debug, instead of a new release build
  --try       installs, runs and removes each on a clean Debian 12; needs root and Debian's packages";

/// A way to install Longarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Deb,
    Tarball,
    Wheel,
    Container,
    Cargo,
}

impl Format {
    const ALL: [Format; 5] = [Format::Deb, Format::Tarball, Format::Wheel, Format::Cargo, Format::Container];

    fn parse(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Deb => "deb",
            Format::Tarball => "tarball",
            Format::Wheel => "wheel",
            Format::Container => "container",
            Format::Cargo => "cargo",
        }
    }
}

/// The arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackageOptions {
    /// Where the packages go; absolute.
    pub(super) out: PathBuf,
    /// A directory with a build, absolute.
    pub(super) from: Option<PathBuf>,
    pub(super) trial: bool,
    pub(super) formats: Vec<Format>,
}

impl PackageOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// The text names the wrong argument, with the help.
    pub(super) fn parse(arguments: &[&str]) -> Result<PackageOptions, String> {
        let wrong = |problem: String| format!("{problem}\n\n{HELP}");
        let mut options =
            PackageOptions { out: target_directory().join("packages"), from: None, trial: false, formats: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut directory = || match rest.next() {
                Some(dir) if !dir.is_empty() && !dir.starts_with("--") => {
                    std::path::absolute(dir).map_err(|error| format!("{dir}: {error}"))
                }
                _ => Err(wrong(format!("{argument} needs a directory"))),
            };
            match *argument {
                "--out" => options.out = directory()?,
                "--from" => options.from = Some(directory()?),
                "--try" => options.trial = true,
                other => match Format::parse(other) {
                    Some(format) if !options.formats.contains(&format) => options.formats.push(format),
                    Some(_) => {}
                    None => return Err(wrong(format!("there is no package or option {other:?}"))),
                },
            }
        }
        if options.formats.is_empty() {
            options.formats = Format::ALL.to_vec();
        }
        // A container gets Longarm from the Debian package.
        if options.formats.contains(&Format::Container) && !options.formats.contains(&Format::Deb) {
            options.formats.insert(0, Format::Deb);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_arguments_all_packages_are_made() {
        let options = PackageOptions::parse(&[]).unwrap();
        assert_eq!(options.formats, Format::ALL);
        assert!(!options.trial && options.from.is_none() && options.out.ends_with("packages"));
    }

    #[test]
    fn a_container_needs_the_debian_package() {
        let options = PackageOptions::parse(&["--out", "/x", "container", "--try", "container"]).unwrap();
        assert_eq!(options.formats, [Format::Deb, Format::Container]);
        assert_eq!((options.out, options.trial), ("/x".into(), true));
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (arguments, named) in
            [(&["rpm"][..], "\"rpm\""), (&["--out"], "--out needs"), (&["--from", "--try"], "--from needs")]
        {
            let problem = PackageOptions::parse(arguments).unwrap_err();
            assert!(problem.contains(named) && problem.contains("FORMAT"), "{problem}");
        }
    }
}
