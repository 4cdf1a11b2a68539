//! Misuse does not compile: each file in `compile_fail` breaks one rule, and the compiler's
//! words for it are kept beside it.

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/all_is_well.rs");
    cases.compile_fail("tests/compile_fail/not_*.rs");
}
