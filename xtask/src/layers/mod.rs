//! The layer rule: dependencies between the workspace's crates point down, and the pure crates
//! use nothing that touches the machine. [`modules`] checks the same inside crates, [`names`] that no two types have
//! one name.

mod graph;
mod modules;
mod names;
mod source;
mod stations;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A crate, and the crates of the workspace that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("longarm-guest", &[]),
    ("longarm-abi", &[]),
    ("longarm-wire", &[]),
    ("longarm-faults", &[]),
    ("longarm-cm", &["longarm-wire"]),
    ("longarm-transport", &["longarm-wire"]),
    ("longarm-memory", &["longarm-guest", "longarm-wire", "longarm-transport"]),
    ("longarm-shm", &["longarm-guest", "longarm-wire", "longarm-memory"]),
    ("longarm-udp", &["longarm-guest", "longarm-wire"]),
    ("longarm-hub", &["longarm-guest", "longarm-wire", "longarm-cm", "longarm-udp"]),
    (
        "longarm-device",
        &[
            "longarm-guest",
            "longarm-wire",
            "longarm-transport",
            "longarm-faults",
            "longarm-memory",
            "longarm-shm",
            "longarm-udp",
            "longarm-hub",
        ],
    ),
    (
        "longarm-connect",
        &[
            "longarm-guest",
            "longarm-wire",
            "longarm-cm",
            "longarm-transport",
            "longarm-faults",
            "longarm-udp",
            "longarm-hub",
        ],
    ),
    (
        "longarm-verbs",
        &[
            "longarm-abi",
            "longarm-guest",
            "longarm-wire",
            "longarm-transport",
            "longarm-memory",
            "longarm-udp",
            "longarm-device",
            "longarm-connect",
        ],
    ),
    (
        "longarm-provider",
        &[
            "longarm-guest",
            "longarm-wire",
            "longarm-transport",
            "longarm-faults",
            "longarm-memory",
            "longarm-device",
            "longarm-connect",
            "longarm-verbs",
        ],
    ),
    ("longarm-rsocket", &["longarm-guest", "longarm-device", "longarm-connect"]),
    ("longarm-stream", &["longarm-guest", "longarm-rsocket"]),
    ("longarm-rpc", &["longarm"]),
    ("longarm-remote", &["longarm", "longarm-rpc"]),
    ("longarm-journal", &[]),
    (
        "longarm-kv",
        &["longarm", "longarm-rpc", "longarm-remote", "longarm-journal", "longarm-cluster", "longarm-replica"],
    ),
    ("longarm-cluster", &["longarm-rpc"]),
    ("longarm-replica", &["longarm-cluster"]),
    ("longarm-resp", &["longarm-kv", "longarm"]),
    ("longarm-rpc-build", &[]),
    ("longarm-rpc-examples", &["longarm-rpc", "longarm-rpc-build"]),
    ("longarm-sim", &["longarm-wire", "longarm-cm", "longarm-transport", "longarm-faults", "longarm-memory"]),
    (
        "longarm",
        &[
            "longarm-guest",
            "longarm-wire",
            "longarm-transport",
            "longarm-faults",
            "longarm-memory",
            "longarm-device",
            "longarm-connect",
            "longarm-provider",
        ],
    ),
    ("longarm-ibverbs", &["longarm-abi", "longarm-guest", "longarm-device", "longarm-connect", "longarm-rsocket"]),
    ("longarm-embed", &[]),
    (
        "longarm-cli",
        &[
            "longarm-device",
            "longarm-connect",
            "longarm-embed",
            "longarm-provider",
            "longarm-hub",
            "longarm-ibverbs",
            "longarm-kv",
            "longarm-remote",
            "longarm-resp",
            "longarm-rpc",
            "longarm-udp",
        ],
    ),
    ("longarm-kv-python", &["longarm-rpc", "longarm-kv"]),
    ("longarm-interop", &["longarm-wire"]),
    ("longarm-testkit", &[]),
    ("xtask", &[]),
];

/// Crates without sockets, clocks and pointers; and all crates that they may use.
const PURE: &[(&str, &[&str])] = &[
    ("longarm-wire", &["bitflags", "crc32fast", "thiserror"]),
    ("longarm-faults", &["thiserror"]),
    ("longarm-cm", &["longarm-wire", "thiserror"]),
    ("longarm-transport", &["longarm-wire", "bitflags", "smallvec", "thiserror"]),
];

/// Compares the workspace with the rule.
pub(crate) fn check() -> Result<(), String> {
    let packages = packages()?;
    let (mut broken, mut types) = (Vec::new(), names::TypeIndex::default());
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            broken.push(format!("{name} has no place in the layers: add it to xtask/src/layers.rs"));
            continue;
        };
        let uses = dependencies(package);
        let ours = uses.iter().filter(|d| LAYERS.iter().any(|(layer, _)| layer == d));
        broken.extend(ours.filter(|d| !allowed.contains(&d.as_str())).map(|d| format!("{name} must not use {d}")));
        if let Some((_, all)) = PURE.iter().find(|(pure, _)| *pure == name) {
            broken.extend(
                uses.iter()
                    .filter(|d| !all.contains(&d.as_str()))
                    .map(|d| format!("{name} is pure and must not use {d}")),
            );
        }
        if let Some(root) = library_root(package) {
            let modules = source::modules_of(Path::new(root))?;
            modules::check(name, &modules, &mut broken);
            types.add(name, &modules);
        }
    }
    types.check(names::SHARED, &mut broken);
    stations::check(&crate::run::root(), &mut broken)?;
    if broken.is_empty() {
        println!("layers: {} crates, all dependencies point down", packages.len());
        return Ok(());
    }
    Err(format!("the layer rule is broken:\n  {}", broken.join("\n  ")))
}

/// The workspace's packages as cargo describes them.
fn packages() -> Result<Vec<Value>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(crate::run::root())
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    metadata["packages"].as_array().cloned().ok_or_else(|| "cargo metadata names no packages".to_string())
}

/// The crates that a package uses outside its tests.
fn dependencies(package: &Value) -> Vec<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|d| d["kind"].as_str() != Some("dev")).filter_map(|d| d["name"].as_str().map(String::from)).collect()
}

/// The root file of a package: that of its library, or of its program if it has no library.
fn library_root(package: &Value) -> Option<&str> {
    let targets = package["targets"].as_array()?;
    let of_kind = |kinds: &[&str]| {
        targets.iter().find(|target| {
            let mut has = target["kind"].as_array().into_iter().flatten();
            has.any(|kind| kinds.contains(&kind.as_str().unwrap_or_default()))
        })
    };
    of_kind(&["lib", "rlib", "cdylib"]).or_else(|| of_kind(&["bin"]))?["src_path"].as_str()
}
