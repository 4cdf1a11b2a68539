//! The licences of the crates that are linked into the command and the library.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::root;

/// The packages that contain what is installed.
const INSTALLED: [&str; 2] = ["longarm-cli", "longarm-ibverbs"];
/// Beginnings of the names of files with licences, in lower case.
const FILES: [&str; 5] = ["license", "licence", "copying", "notice", "copyright"];

/// The crates of others with their licences, and each text once.
///
/// # Errors
/// If cargo does not describe the workspace, or a file cannot be read.
pub(super) fn of_others() -> Result<String, String> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let by_id: HashMap<&str, &Value> = packages.iter().filter_map(|p| Some((p["id"].as_str()?, p))).collect();
    let mut crates = BTreeMap::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for id in linked(&metadata, &by_id) {
        let package = by_id[id];
        if package["source"].is_null() {
            continue;
        }
        let name = format!("{} {}", word(package, "name"), word(package, "version"));
        let dir = Path::new(word(package, "manifest_path")).parent().unwrap_or(Path::new("/"));
        for text in licence_texts(dir)? {
            texts.entry(text).or_default().insert(name.clone());
        }
        crates.insert(name, word(package, "license"));
    }
    Ok(document(&crates, &texts))
}

fn word<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

fn metadata() -> Result<Value, String> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// The ids of the packages that the linker sees. Macros only run in the compiler.
fn linked<'a>(metadata: &'a Value, by_id: &HashMap<&str, &'a Value>) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let nodes: HashMap<&str, &Value> = nodes.filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let is_root = |package: &&&Value| INSTALLED.contains(&word(package, "name"));
    let mut open: Vec<&str> = by_id.values().filter(is_root).map(|package| word(package, "id")).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if is_macro(by_id[id]) || !found.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        open.extend(dependencies.filter(|dependency| is_normal(dependency)).filter_map(|d| d["pkg"].as_str()));
    }
    found
}

fn is_macro(package: &Value) -> bool {
    let mut targets = package["targets"].as_array().into_iter().flatten();
    targets.any(|target| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "proc-macro")))
}

/// Whether a dependency is neither for tests nor for build scripts.
fn is_normal(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// The texts of a crate's files with licences.
fn licence_texts(dir: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))?;
    let is_licence = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        FILES.iter().any(|begin| name.starts_with(begin)) && entry.path().is_file()
    };
    let files = entries.flatten().filter(is_licence).map(|entry| entry.path());
    let read = |file: std::path::PathBuf| {
        let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        Ok(text.replace("\r\n", "\n").trim().to_owned())
    };
    files.map(read).collect()
}

fn document(crates: &BTreeMap<String, &str>, texts: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut text = String::from(
        "Longarm's programs contain these crates of others, and Rust's standard library (MIT OR Apache-2.0).\n\n",
    );
    let line = "-".repeat(100);
    // A String takes everything that is written.
    for (name, licence) in crates {
        let _ = writeln!(text, "{name}: {licence}");
    }
    for (licence, names) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = writeln!(text, "\n{line}\n{}\n{line}\n\n{licence}", names.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_named_with_their_texts() {
        let text = of_others().unwrap();
        assert!(text.contains("\nlibc 0.2") && text.contains("Copyright (c) The Rust Project Developers"), "{text}");
        assert!(!text.contains("\nlongarm"), "our own have files of their own");
        assert!(!text.contains("\nsyn ") && !text.contains("\nproptest "), "only what is linked");
    }
}
