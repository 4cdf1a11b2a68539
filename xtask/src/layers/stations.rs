//! The stations of the data path that ARCHITECTURE.md lists: each function is in the file that the list names.
//!
//! A row is `| 3 | `Type::function` | `crates/.../file.rs` | ... |`; a heading begins the next path.

use std::collections::BTreeMap;
use std::path::Path;

/// Stations that one path may have.
const MAX_STATIONS: usize = 20;
/// Paths that the document shows.
const PATHS: usize = 4;

/// Compares the lists with the source; adds what is wrong to `broken`.
pub(super) fn check(root: &Path, broken: &mut Vec<String>) -> Result<(), String> {
    let document = root.join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&document).map_err(|e| format!("{}: {e}", document.display()))?;
    let paths = paths_in(&text);
    if paths.len() != PATHS {
        broken.push(format!("ARCHITECTURE.md lists the stations of {} paths instead of {PATHS}", paths.len()));
    }
    for (path, stations) in paths {
        if stations.len() > MAX_STATIONS {
            broken.push(format!("ARCHITECTURE.md: {path} has {} stations, {MAX_STATIONS} may be", stations.len()));
        }
        broken.extend(stations.iter().filter_map(|station| problem(root, station)));
    }
    Ok(())
}

struct Station {
    function: String,
    file: String,
}

/// The stations below each heading that has any.
fn paths_in(text: &str) -> BTreeMap<&str, Vec<Station>> {
    let mut heading = "";
    let mut paths: BTreeMap<&str, Vec<Station>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            heading = title;
        } else if let Some(station) = station(line) {
            paths.entry(heading).or_default().push(station);
        }
    }
    paths
}

fn station(line: &str) -> Option<Station> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    cells.next()?.parse::<u32>().ok()?;
    let mut code = || Some(cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_string());
    Some(Station { function: code()?, file: code()? })
}

fn problem(root: &Path, station: &Station) -> Option<String> {
    let Station { function, file } = station;
    let Ok(source) = std::fs::read_to_string(root.join(file)) else {
        return Some(format!("ARCHITECTURE.md: `{function}` is said to be in {file}, which cannot be read"));
    };
    let name = function.rsplit("::").next().unwrap_or(function);
    let defined = |end: char| source.contains(&format!("fn {name}{end}"));
    (!defined('(') && !defined('<')).then(|| format!("ARCHITECTURE.md: {file} has no function `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_stations() {
        let text = "### one\n\n|   | function | file |\n|---|---|---|\n| 1 | `A::act` | `a.rs` | says |\n### two\n| 1 | `b` | `b.rs` |";
        let paths = paths_in(text);
        assert_eq!(paths.keys().copied().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!((paths["one"][0].function.as_str(), paths["one"][0].file.as_str()), ("A::act", "a.rs"));
    }

    #[test]
    fn a_function_that_is_elsewhere_is_told() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.rs"), "fn act() {}\nfn generic<T>() {}").unwrap();
        let station = |function: &str, file: &str| Station { function: function.into(), file: file.into() };
        assert_eq!(problem(place.path(), &station("A::act", "a.rs")), None);
        assert_eq!(problem(place.path(), &station("generic", "a.rs")), None);
        assert!(problem(place.path(), &station("ac", "a.rs")).unwrap().contains("no function `ac`"));
        assert!(problem(place.path(), &station("act", "b.rs")).unwrap().contains("cannot be read"));
    }
}
