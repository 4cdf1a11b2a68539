//! Replaces the generated part of a document, between two comments. Authors write the rest by hand.

use std::path::Path;

use crate::error::Error;

/// The comments around a generated part.
pub(super) struct Marks {
    begin: &'static str,
    end: &'static str,
}

/// The figures of the last run.
pub(super) const LAST_RUN: Marks = Marks {
    begin: "<!-- compare: from here to the end mark `cargo xtask compare` writes -->",
    end: "<!-- compare: end -->",
};
/// The range over all recorded runs.
pub(super) const ALL_RUNS: Marks = Marks {
    begin: "<!-- runs: from here to the end mark `cargo xtask compare --record` writes -->",
    end: "<!-- runs: end -->",
};

/// Writes `text` between the marks of a file; makes the file if there is none.
pub(super) fn write(path: &Path, marks: &Marks, text: &str) -> Result<(), Error> {
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "# Performance\n".into(),
        other => other.map_err(|e| Error::File(path.display().to_string(), e))?,
    };
    std::fs::write(path, replace(&before, marks, text)).map_err(|e| Error::File(path.display().to_string(), e))
}

/// The document with another text between its marks, or appended with marks if it has none.
fn replace(document: &str, Marks { begin, end }: &Marks, text: &str) -> String {
    let ours = format!("{begin}\n\n{}\n\n{end}", text.trim());
    match document.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1))) {
        Some((before, after)) => format!("{before}{ours}{after}"),
        None => format!("{}\n\n{ours}\n", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_written_text_stays() {
        let once = replace("# Performance\n\nAbout.\n", &LAST_RUN, "| a |");
        assert!(once.starts_with("# Performance\n\nAbout.\n\n<!--") && once.contains("\n\n| a |\n\n"), "{once}");
        let twice = replace(&format!("{once}\n## The hot path\n\nText.\n"), &LAST_RUN, "| b |");
        assert!(twice.contains("| b |") && !twice.contains("| a |"), "{twice}");
        assert!(twice.ends_with("<!-- compare: end -->\n\n## The hot path\n\nText.\n"), "{twice}");
    }
}
