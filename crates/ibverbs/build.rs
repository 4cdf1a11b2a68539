//! Exports the symbols of `exports.txt` under their version nodes.
//!
//! rustc hands the linker a version script of its own for a cdylib, with no nodes in it. So a
//! function that is merely `no_mangle` stays without a version. Here every symbol gets a trampoline
//! in assembly, which carries the version itself (`.symver`). The linker gets a second script that
//! only declares the nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// Symbols that are data, not functions.
const DATA: &[&str] = &["verbs_allow_disassociate_destroy"];
/// Symbols of the interface to providers that programs use as well; the rest answers "not supported".
const PRIVATE_THAT_WORK: &[&str] = &["ibv_query_gid_type", "ibv_read_ibdev_sysfs_file", "ibv_wr_opcode_str"];

/// Symbols of that interface that return a pointer.
const PRIVATE_POINTERS: &[&str] = &["_verbs_init_and_alloc_context", "verbs_open_device", "ibv_dmabuf_heap_alloc"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exports.txt");
    let exports: Vec<ExportedSymbol> =
        include_str!("exports.txt").lines().filter(|line| !line.starts_with('#')).map(ExportedSymbol::parse).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let script = out.join("nodes.map");
    fs::write(&script, nodes(&exports)).expect("OUT_DIR can be written");
    fs::write(out.join("exports.rs"), trampolines(&exports)).expect("OUT_DIR can be written");
    for option in
        [format!("--version-script={}", script.display()), "-soname,libibverbs.so.1".into(), "-z,nodelete".into()]
    {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{option}");
    }
}

/// One line of the list.
struct ExportedSymbol {
    node: String,
    name: String,
    default: bool,
}

impl ExportedSymbol {
    fn parse(line: &str) -> ExportedSymbol {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [node, name, kind] = fields[..] else { panic!("exports.txt: {line:?} has not three fields") };
        ExportedSymbol { node: node.into(), name: name.into(), default: kind == "@@" }
    }

    /// The assembly of the trampoline, or of the datum.
    fn assembly(&self) -> String {
        let ExportedSymbol { node, name, default } = self;
        let local = format!("longarm_{name}_{node}");
        let at = if *default { "@@" } else { "@" };
        let (section, kind, body) = match DATA.contains(&name.as_str()) {
            true => (format!(".rodata.{local},\\\"a\\\",@progbits"), "object", ".byte 0".to_owned()),
            false => (format!(".text.{local},\\\"ax\\\",@progbits"), "function", "jmp {target}".to_owned()),
        };
        [
            format!(".pushsection {section}"),
            format!(".globl {local}"),
            format!(".type {local},@{kind}"),
            format!("{local}:"),
            body,
            format!(".size {local}, . - {local}"),
            format!(".symver {local}, {name}{at}{node}, remove"),
            ".popsection".to_owned(),
        ]
        .join("\\n")
    }

    /// The Rust function behind it.
    fn target(&self) -> Option<String> {
        if DATA.contains(&self.name.as_str()) {
            return None;
        }
        let name = &self.name;
        let private = self.node.contains("PRIVATE") || name == "ibv_register_driver";
        if !private || PRIVATE_THAT_WORK.contains(&name.as_str()) {
            return Some(format!("crate::symbols::{name}"));
        }
        Some(match PRIVATE_POINTERS.contains(&name.as_str()) {
            true => "crate::private::no_pointer".into(),
            false => "crate::private::not_supported".into(),
        })
    }
}

/// Declares every node, in order of release.
fn nodes(exports: &[ExportedSymbol]) -> String {
    let names: BTreeSet<&str> = exports.iter().map(|export| export.node.as_str()).collect();
    names.into_iter().map(|name| format!("{name} {{ }};\n")).collect()
}

fn trampolines(exports: &[ExportedSymbol]) -> String {
    let mut text = String::new();
    for export in exports {
        let operand = export.target().map(|target| format!(", target = sym {target}")).unwrap_or_default();
        writeln!(text, "core::arch::global_asm!(\"{}\"{operand});", export.assembly()).expect("a String takes it");
    }
    text
}
