//! Whole files: refusals, choices, and the sets for reflection. The crate of examples compiles and runs generated code.

use std::fs;
use std::io;
use std::path::Path;

use longarm_rpc_build::{Builder, FileDescriptorSet, configure};
use prost::Message;

const STREAMS: &str = r#"
syntax = "proto3";
package log;
service Log {
  rpc Append(Line) returns (Line);
  rpc Follow(Line) returns (stream Line);
}
message Line { string text = 1; }
"#;

/// Compiles the first of the files, which lie in one directory; returns that directory with the generated files.
fn compile(builder: Builder, files: &[(&str, &str)]) -> io::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    for (name, text) in files {
        fs::write(directory.path().join(name), text)?;
    }
    let first = directory.path().join(files[0].0);
    builder.out_dir(directory.path()).compile_protos(&[first.as_path()], &[directory.path()])?;
    Ok(directory)
}

fn read(directory: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(directory.path().join(name)).unwrap()
}

#[test]
fn a_stream_is_refused_with_the_way_out() {
    let error = compile(configure(), &[("log.proto", STREAMS)]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let words = error.to_string();
    for expected in ["log.proto", "/log.Log/Follow", "tonic over longarm-stream", "docs/streams.md", "skip_streaming"] {
        assert!(words.contains(expected), "{words}");
    }
}

#[test]
fn a_stream_can_be_left_out() {
    let directory = compile(configure().skip_streaming(true), &[("log.proto", STREAMS)]).unwrap();
    let code = read(&directory, "log.rs");
    assert!(code.contains("fn append"));
    assert!(!code.contains("follow") && !code.contains("Follow"), "{code}");
}

#[test]
fn one_side_can_be_left_out() {
    let files = [("log.proto", STREAMS)];
    let code = read(&compile(configure().skip_streaming(true).build_server(false), &files).unwrap(), "log.rs");
    assert!(code.contains("mod log_client") && !code.contains("mod log_server"));
    let code = read(&compile(configure().skip_streaming(true).build_client(false), &files).unwrap(), "log.rs");
    assert!(code.contains("mod log_server") && !code.contains("mod log_client"));
}

#[test]
fn an_error_names_its_place() {
    let error =
        compile(configure(), &[("bad.proto", "syntax = \"proto3\";\nmessage A { Missing m = 1; }")]).unwrap_err();
    assert!(error.to_string().contains("Missing"), "{error}");
}

/// Three files: a service, a package that it uses, and one that nobody needs.
const SHOP: &[(&str, &str)] = &[
    (
        "shop.proto",
        r#"
        syntax = "proto3";
        package shop.v1;
        import "money.proto";
        import "google/protobuf/timestamp.proto";
        // Sells things.
        service Shop { rpc Price(google.protobuf.Timestamp) returns (money.Amount); }
        "#,
    ),
    ("money.proto", "syntax = \"proto3\"; package money; message Amount { uint64 cents = 1; }"),
    ("unused.proto", "syntax = \"proto3\"; package unused; message Unused {}"),
];

#[test]
fn the_set_of_a_package_has_its_imports_and_no_comments() {
    let directory = compile(configure(), SHOP).unwrap();
    let bytes = fs::read(directory.path().join("shop.v1.descriptors.bin")).unwrap();
    let set = FileDescriptorSet::decode(&bytes[..]).unwrap();
    let names: Vec<_> = set.file.iter().map(|file| file.name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in ["shop.proto", "money.proto", "google/protobuf/timestamp.proto"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(set.file.iter().all(|file| file.source_code_info.is_none()));
    assert!(!directory.path().join("money.descriptors.bin").exists());
}

#[test]
fn messages_of_other_packages_have_the_right_paths() {
    let directory = compile(configure(), SHOP).unwrap();
    let code = read(&directory, "shop.v1.rs");
    assert!(code.contains("super::super::super::money::Amount"), "{code}");
    assert!(code.contains("::longarm_rpc::codegen::prost_types::Timestamp"), "{code}");
    assert!(code.contains("\"/shop.v1.Shop/Price\""), "{code}");
    assert!(read(&directory, "money.rs").contains("struct Amount"));
    let builder = configure().extern_path(".money", "crate::cash");
    let directory = compile(builder, SHOP).unwrap();
    assert!(read(&directory, "shop.v1.rs").contains("crate::cash::Amount"));
    assert!(!directory.path().join("money.rs").exists());
}

#[test]
fn client_and_server_can_use_messages_that_tonic_generated() {
    let builder = configure().skip_streaming(true).extern_path(".log", "crate::messages");
    let code = read(&compile(builder, &[("log.proto", STREAMS)]).unwrap(), "log.rs");
    assert!(code.contains("crate::messages::Line") && !code.contains("struct Line"), "{code}");
}

#[test]
fn the_whole_set_is_written_where_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.bin");
    compile(configure().file_descriptor_set_path(&path), SHOP).unwrap();
    assert_eq!(FileDescriptorSet::decode(&fs::read(path).unwrap()[..]).unwrap().file.len(), 3);
}

#[test]
fn a_missing_file_is_an_error() {
    let error = configure().out_dir(".").compile_protos(&[Path::new("no.proto")], &[Path::new(".")]).unwrap_err();
    assert!(error.to_string().contains("no.proto"), "{error}");
}
