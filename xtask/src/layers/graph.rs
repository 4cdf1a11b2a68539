//! The imports between the files of a crate. Re-exports are followed to the file that defines the name.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::source::{Module, ModulePath};

/// The longest chain of re-exports that leads to one name.
const MAX_HOPS: usize = 16;

/// The import graph of a crate: for each file, named by its module, the files that it imports from.
pub(super) struct ImportGraph(BTreeMap<ModulePath, BTreeSet<ModulePath>>);

impl ImportGraph {
    /// The graph of the crate with these modules.
    pub(super) fn of_modules(modules: &BTreeMap<ModulePath, Module>) -> ImportGraph {
        let mut files: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (path, module) in modules {
            let targets = module.uses.iter().filter_map(|used| resolve(modules, path, used, MAX_HOPS));
            let targets = targets.map(|target| modules[&target].file.clone()).filter(|target| *target != module.file);
            files.entry(module.file.clone()).or_default().extend(targets);
        }
        ImportGraph(files)
    }

    /// Every file with the files that it imports from.
    pub(super) fn imports(&self) -> impl Iterator<Item = (&ModulePath, &ModulePath)> {
        self.0.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)))
    }

    /// The number of files of the crate.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The sets of files that import each other in a circle, the largest first; each has two files or more.
    pub(super) fn circles(&self) -> Vec<Vec<&ModulePath>> {
        let names: Vec<&ModulePath> = self.0.keys().collect();
        let number = |path: &ModulePath| names.binary_search(&path).ok();
        let edges = self.imports().filter_map(|(from, to)| Some((number(from)?, number(to)?)));
        let graph: DiGraphMap<usize, ()> = edges.collect();
        let mut circles: Vec<Vec<&ModulePath>> = tarjan_scc(&graph)
            .into_iter()
            .filter(|circle| circle.len() > 1)
            .map(|circle| circle.into_iter().map(|file| names[file]).collect())
            .collect();
        circles.iter_mut().for_each(|circle| circle.sort());
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// The module that defines the path `used` in the module `at`; `None` if that is another crate's.
fn resolve(modules: &BTreeMap<ModulePath, Module>, at: &[String], used: &[String], hops: usize) -> Option<ModulePath> {
    let (mut here, mut rest) = start(modules, at, used)?;
    while let [name, behind @ ..] = rest {
        let child = [here.clone(), vec![name.clone()]].concat();
        if modules.contains_key(&child) {
            (here, rest) = (child, behind);
            continue;
        }
        let module = &modules[&here];
        if module.items.contains(name) || hops == 0 {
            break;
        }
        if let Some(import) = module.imports.get(name) {
            return resolve(modules, &here, &[import, behind].concat(), hops - 1);
        }
        let globs = module.globs.iter().map(|glob| [glob.as_slice(), rest].concat());
        let mut found = globs.filter_map(|path| resolve(modules, &here, &path, hops - 1));
        return found.find(|target| *target != here).or(Some(here.clone()));
    }
    Some(here)
}

/// The module that a path begins in, and the rest of the path.
fn start<'a>(
    modules: &BTreeMap<ModulePath, Module>,
    at: &[String],
    used: &'a [String],
) -> Option<(ModulePath, &'a [String])> {
    match used.first()?.as_str() {
        "crate" => Some((Vec::new(), &used[1..])),
        "self" => Some((at.to_vec(), &used[1..])),
        "super" => {
            let supers = used.iter().take_while(|name| *name == "super").count();
            Some((at[..at.len().checked_sub(supers)?].to_vec(), &used[supers..]))
        }
        first => {
            let is_child = modules.contains_key(&[at, &[first.to_string()]].concat());
            is_child.then(|| (at.to_vec(), used))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::source::modules_of;

    /// The import graph of a crate with these files.
    fn graph(files: &[(&str, &str)]) -> ImportGraph {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = place.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        ImportGraph::of_modules(&modules_of(&place.path().join("lib.rs")).unwrap())
    }

    fn edges(graph: &ImportGraph) -> Vec<String> {
        graph.imports().map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::"))).collect()
    }

    #[test]
    fn imports_lead_to_the_file_that_defines_the_name() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; pub use b::inner::Deep;"),
            ("a.rs", "use crate::Deep; use super::b::Shallow; use std::io;"),
            ("b/mod.rs", "pub mod inner; pub struct Shallow;"),
            ("b/inner.rs", "pub struct Deep; fn f() -> super::Shallow { super::Shallow }"),
        ]);
        assert_eq!(edges(&graph), [" -> b::inner", "a -> b", "a -> b::inner", "b::inner -> b"]);
        assert!(graph.circles().is_empty());
        assert_eq!(graph.len(), 4);
    }

    #[test]
    fn circles_are_found_and_tests_do_not_count() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "fn f() { crate::c::C; } pub struct B;"),
            ("c.rs", "pub struct C(crate::a::A); #[cfg(test)] mod tests { use crate::d::D; }"),
        ]);
        let circles = graph.circles();
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].iter().map(|file| file.join("::")).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn glob_imports_and_modules_by_name_count() {
        let graph = graph(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b; fn f() { b::act() }"),
            ("b.rs", "pub fn act() {} use crate::a::*;"),
        ]);
        assert_eq!(edges(&graph), ["a -> b", "b -> a"]);
        assert_eq!(graph.circles()[0].len(), 2);
    }
}
