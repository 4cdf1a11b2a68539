//! The layer rule inside crates: modules import downwards, and only few files form an import circle.

use std::collections::BTreeMap;

use super::graph::ImportGraph;
use super::source::{Module, ModulePath};

/// The largest permitted import circle: three files, or the size of a crate's largest circle in
/// [`LARGER_CIRCLES`]. The check refuses a number that is larger than needed, so the numbers only fall.
const LARGEST_CIRCLE: usize = 3;
const LARGER_CIRCLES: &[(&str, usize)] = &[];

/// The layers of a crate, the lowest first: a top module, and the other top modules that it may import.
type Layers = &'static [(&'static str, &'static [&'static str])];

/// Crates whose top modules are layers.
const LAYERS: &[(&str, Layers)] = &[("longarm-device", DEVICE_LAYERS)];

/// The device: objects at the bottom, handles at the top. Neither path's module imports the other's, nor the engine.
const DEVICE_LAYERS: Layers = &[
    ("error", &[]),
    ("clock", &[]),
    ("objects", &["error", "clock"]),
    ("wait_list", &[]),
    ("wire", &["objects", "wait_list"]),
    ("shm", &["objects", "clock"]),
    ("qp", &["objects", "wire", "shm"]),
    ("schedule", &["wait_list", "wire", "shm", "qp"]),
    ("path", &["clock", "objects", "wire", "shm", "qp", "schedule"]),
    ("engine", &["error", "clock", "objects", "wire", "shm", "qp", "schedule", "path"]),
    ("handles", &["error", "clock", "objects", "wire", "shm", "qp", "schedule", "engine"]),
    ("testing", &["objects", "path", "schedule", "engine", "handles"]),
];

/// Compares the modules of a package with the rule; adds what breaks it to `broken`.
pub(super) fn check(package: &str, modules: &BTreeMap<ModulePath, Module>, broken: &mut Vec<String>) {
    let graph = ImportGraph::of_modules(modules);
    broken.extend(check_circles(package, &graph));
    if let Some((_, layers)) = LAYERS.iter().find(|(layered, _)| *layered == package) {
        broken.extend(graph.imports().filter_map(|(from, to)| check_import(package, layers, from, to)));
    }
}

fn check_circles(package: &str, graph: &ImportGraph) -> Option<String> {
    let larger = LARGER_CIRCLES.iter().find(|(name, _)| *name == package);
    let most = larger.map_or(LARGEST_CIRCLE, |(_, most)| *most);
    let circles = graph.circles();
    let largest = circles.first().map_or(0, Vec::len);
    if largest > most {
        let files: Vec<String> = circles[0].iter().map(|file| named(file)).collect();
        return Some(format!(
            "{package}: {largest} of {} files import each other around, {most} may: {}",
            graph.len(),
            files.join(", ")
        ));
    }
    (larger.is_some() && largest < most)
        .then(|| format!("{package}: no circle has more than {largest} files: lower its number in {}", file!()))
}

fn check_import(package: &str, layers: Layers, from: &ModulePath, to: &ModulePath) -> Option<String> {
    // The crate's root re-exports from all layers.
    let (upper, lower) = (from.first()?, to.first()?);
    if upper == lower {
        return None;
    }
    let Some((_, allowed)) = layers.iter().find(|(layer, _)| layer == upper) else {
        return Some(format!("{package}: module {upper} has no place in the layers: add it to {}", file!()));
    };
    (!allowed.contains(&lower.as_str()))
        .then(|| format!("{package}: {} must not import from {}", named(from), named(to)))
}

fn named(file: &ModulePath) -> String {
    if file.is_empty() { "the root".to_string() } else { file.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Layers = &[("objects", &[]), ("engine", &["objects"])];

    fn path(name: &str) -> ModulePath {
        name.split("::").map(String::from).collect()
    }

    #[test]
    fn imports_point_down() {
        let check = |from: &str, to: &str| check_import("some", TWO, &path(from), &path(to));
        assert_eq!(check("engine::step", "objects::cq"), None);
        assert_eq!(check("objects::cq", "objects::srq"), None);
        let refused = check("objects::cq", "engine::step").unwrap();
        assert!(refused.contains("objects::cq must not import from engine::step"), "{refused}");
        assert!(check("other", "objects").unwrap().contains("has no place"));
        assert_eq!(check_import("some", TWO, &Vec::new(), &path("engine")), None, "the root may");
    }
}
