use std::fs;

use super::find;

fn arguments(of: &[&str]) -> std::vec::IntoIter<String> {
    of.iter().map(|argument| argument.to_string()).collect::<Vec<_>>().into_iter()
}

#[test]
fn the_library_lies_beside_the_dependency() {
    let dir = std::env::temp_dir().join(format!("longarm-embed-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (rlib, library) = (dir.join("libthing-12ab.rlib"), dir.join("libthing-12ab.so"));
    let external = format!("thing={}", rlib.display());
    let of = |path: &str| arguments(&["rustc", "--extern", "other=/x/libother.rlib", "--extern", path]);
    let problem = find("thing", of(&external)).unwrap_err();
    assert!(problem.contains("cdylib"), "{problem}");
    fs::write(&library, "bytes").unwrap();
    assert_eq!(find("thing", of(&external)), Ok(Some(library.clone())));
    assert_eq!(find("thing", of(&format!("noprelude:{external}"))), Ok(Some(library)));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_check_has_no_library() {
    let external = arguments(&["--extern", "thing=/x/libthing-12ab.rmeta"]);
    assert_eq!(find("thing", external), Ok(None));
}

#[test]
fn other_crates_are_no_answer() {
    let problem = find("thing", arguments(&["--extern", "something=/x/libsomething.rlib", "--extern", "proc_macro"]));
    assert!(problem.unwrap_err().contains("not a dependency"));
}
