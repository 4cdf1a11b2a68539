//! The reflection service's generated code, which longarm-rpc keeps in its source, is what this crate generates.

use std::fs;
use std::path::Path;

#[test]
fn the_generated_code_in_longarm_rpc_is_current() {
    let rpc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rpc");
    let kept = rpc.join("src/typed/reflection/generated");
    let made = tempfile::tempdir().unwrap();
    let builder = longarm_rpc_build::configure().bytes(["."]).out_dir(made.path());
    builder.compile_protos(&[rpc.join("proto/reflection.proto")], &[rpc.join("proto")]).unwrap();
    for name in ["longarm.rpc.rs", "longarm.rpc.descriptors.bin"] {
        let bytes = fs::read(made.path().join(name)).unwrap();
        if std::env::var_os("LONGARM_UPDATE_GENERATED").is_some() {
            fs::write(kept.join(name), &bytes).unwrap();
        }
        let is_current = fs::read(kept.join(name)).is_ok_and(|old| old == bytes);
        assert!(is_current, "{name} is out of date: run this test with LONGARM_UPDATE_GENERATED=1");
    }
}
