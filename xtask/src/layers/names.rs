//! One name, one type: no two structs, enums, unions or traits of the workspace have the same name. Tests are free.

use std::collections::BTreeMap;

use super::source::{Module, ModulePath};

/// Names that several crates may define, with these crates and the reason.
pub(super) type SharedNames = &'static [(&'static str, &'static [&'static str], &'static str)];

pub(super) const SHARED: SharedNames = &[
    ("Error", &["longarm-cm", "longarm-connect", "longarm-device", "longarm-cli"], "each is the error of its crate"),
    ("Sealed", &["longarm"], "the customary name of a private supertrait"),
    (
        "Completion",
        &["longarm-transport", "longarm"],
        "the public API shows the transport's completion with its buffer",
    ),
    ("PostError", &["longarm-transport", "longarm"], "the public API adds its own refusals to the transport's"),
    ("Status", &["longarm-transport", "longarm-rpc"], TONIC),
    ("Server", &["longarm-hub", "longarm-rpc"], TONIC),
    ("Response", &["longarm-transport", "longarm-rpc"], TONIC),
    ("Code", &["longarm-cli", "longarm-rpc"], TONIC),
    ("Qp", &["longarm-transport", "longarm-device", "longarm-verbs", "longarm-provider"], HANDLE),
    ("Device", &["longarm-device", "longarm-verbs", "longarm-provider", "longarm"], HANDLE),
    ("Pd", HANDLES, HANDLE),
    ("Mr", HANDLES, HANDLE),
    ("Mw", HANDLES, HANDLE),
    ("Cq", HANDLES, HANDLE),
    ("CompChannel", HANDLES, HANDLE),
    ("Srq", HANDLES, HANDLE),
    ("QpSpec", HANDLES, HANDLE),
    ("Id", IDS, HANDLE),
    ("Event", IDS, HANDLE),
    ("EventQueue", IDS, HANDLE),
];

const TONIC: &str = "users of gRPC know it from tonic";
const HANDLE: &str = "the same handle: the transport's value, Longarm's, the system's, and the enum over both";
const HANDLES: &[&str] = &["longarm-device", "longarm-verbs", "longarm-provider"];
const IDS: &[&str] = &["longarm-connect", "longarm-verbs", "longarm-provider"];

/// The types of the workspace: for each name the crates that define it, and the modules that do.
#[derive(Default)]
pub(super) struct TypeIndex(BTreeMap<String, Vec<TypePath>>);

struct TypePath {
    package: String,
    module: ModulePath,
}

impl TypeIndex {
    /// Adds the types of a crate.
    pub(super) fn add(&mut self, package: &str, modules: &BTreeMap<ModulePath, Module>) {
        for (path, module) in modules {
            for name in &module.types {
                let defined = TypePath { package: package.to_string(), module: path.clone() };
                self.0.entry(name.clone()).or_default().push(defined);
            }
        }
    }

    /// Adds to `broken` each name that has two types without permission, and each permission without use.
    pub(super) fn check(&self, shared: SharedNames, broken: &mut Vec<String>) {
        for (name, paths) in self.0.iter().filter(|(_, paths)| paths.len() > 1) {
            let permitted = shared.iter().find(|(permitted, ..)| permitted == name).map_or(&[][..], |(_, by, _)| by);
            if !paths.iter().all(|path| permitted.contains(&path.package.as_str())) {
                let places: Vec<String> = paths.iter().map(TypePath::describe).collect();
                broken.push(format!("{} types have the name {name}: {}", paths.len(), places.join(", ")));
            }
        }
        let is_used = |name: &str| self.0.get(name).is_some_and(|paths| paths.len() > 1);
        let unused = shared.iter().filter(|(name, ..)| !is_used(name));
        broken.extend(unused.map(|(name, ..)| format!("one type has the name {name}: delete it from {}", file!())));
    }
}

impl TypePath {
    fn describe(&self) -> String {
        [std::slice::from_ref(&self.package), &self.module].concat().join("::")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The complaints about crates with these types.
    fn complaints(crates: &[(&str, &[&str])], shared: SharedNames) -> Vec<String> {
        let mut names = TypeIndex::default();
        for (package, types) in crates {
            let types = types.iter().map(|name| name.to_string()).collect();
            let module = Module { types, ..Module::default() };
            names.add(package, &BTreeMap::from([(vec!["link".to_string()], module)]));
        }
        let mut broken = Vec::new();
        names.check(shared, &mut broken);
        broken
    }

    #[test]
    fn two_types_of_one_name_are_refused() {
        let broken = complaints(&[("shm", &["Link", "Peer"]), ("sim", &["Link"])], &[]);
        assert_eq!(broken, ["2 types have the name Link: shm::link, sim::link"]);
    }

    #[test]
    fn permission_holds_for_its_crates_only() {
        const SHARED: SharedNames = &[("Qp", &["transport", "device"], "a handle")];
        assert!(complaints(&[("transport", &["Qp"]), ("device", &["Qp"])], SHARED).is_empty());
        let broken = complaints(&[("transport", &["Qp"]), ("device", &["Qp"]), ("sim", &["Qp"])], SHARED);
        assert_eq!(broken, ["3 types have the name Qp: transport::link, device::link, sim::link"]);
    }

    #[test]
    fn permission_without_use_is_told() {
        const SHARED: SharedNames = &[("Qp", &["transport", "device"], "a handle")];
        let broken = complaints(&[("transport", &["Qp"])], SHARED);
        assert!(broken[0].starts_with("one type has the name Qp"), "{broken:?}");
    }
}
