//! Prepares the environment in which a program can be executed, from the program and the options.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::environment::{Environment, SYSFS_VARIABLE};
use super::error::StartFailure;
use super::library::{LIBRARY_VARIABLE, Library};
use super::namespace::{self, NamespaceView};
use super::needs::{self, Needs, Reach};
use super::options::{RunMode, RunOptions};
use super::search::{Search, fits};
use super::{command, facts, stable_hash, tools};
use crate::sysfs::{self, Tree};

/// Number of trees that stay in the runtime directory: programs may still read older ones.
const TREES_KEPT: usize = 8;
const TREE_PREFIX: &str = "sysfs-";

/// Starts the hub if there is none, and prepares the environment of a program. In namespace
/// mode this process, which must have one thread, is in the namespace afterwards.
///
/// # Errors
/// [`StartFailure`], with a text for the user.
pub(crate) fn prepare(program: &Path, options: &RunOptions) -> Result<Environment, StartFailure> {
    options.check()?;
    let runtime_dir = hub::client::runtime_dir(None)?;
    let library = Library::find(&runtime_dir)?;
    let records = hub::client::devices(None)?;
    let chosen = options.chosen(&records)?;
    let tree = sysfs::class_tree(&facts::describe(&chosen));
    let links = library.link_directory(&runtime_dir)?;
    options.report(|| format!("the library is {}, its directory {}", library.file.display(), links.display()));

    let mut environment = Environment::default();
    options.variables().into_iter().for_each(|(name, value)| environment.set(name, value));
    environment.library_path(&links);
    environment.programs(&tools::directory(&runtime_dir)?);
    environment.set(LIBRARY_VARIABLE, &library.file);
    hub_program(&mut environment);

    let search = Search::new();
    let needs = needs::of(program, &search);
    let inside = chosen.first().is_some_and(|record| is_inside(&record.name));
    let sysfs_root = if inside {
        options.report(|| "already in a namespace of Longarm".into());
        PathBuf::from(namespace::SYSFS_ROOT)
    } else if wants_namespace(options, &needs)? {
        let nodes: Vec<String> = (0..chosen.len()).map(sysfs::node_name).collect();
        let replaced = replaced(&library, &needs, &search);
        let view = NamespaceView { class: &tree, nodes: &nodes, library: &library.file, replaced: &replaced };
        namespace::enter(&view).map_err(|refused| StartFailure::NoNamespace(refused.to_string()))?;
        replaced.iter().for_each(|file| options.report(|| format!("in place of {}", file.display())));
        PathBuf::from(namespace::SYSFS_ROOT)
    } else {
        write_tree(&tree, &runtime_dir)?
    };
    let replaces = sysfs_root == Path::new(namespace::SYSFS_ROOT);
    if options.preload || needs.python || (!replaces && !needs.hidden.is_empty()) {
        options.report(|| "the loader loads the library before all others".into());
        environment.preload(&links.join("libibverbs.so.1"));
    }
    environment.set(SYSFS_VARIABLE, sysfs_root);
    Ok(environment)
}

/// Whether an outer `longarm run` has made a namespace.
fn is_inside(device: &str) -> bool {
    let root = env::var_os(SYSFS_VARIABLE);
    root.is_some_and(|root| root == namespace::SYSFS_ROOT) && namespace::is_inside(device)
}

/// Names this command as the program that starts a hub, for programs other than `longarm`.
fn hub_program(environment: &mut Environment) {
    if env::var_os(hub::HUB_VARIABLE).is_none()
        && let Ok(own) = env::current_exe()
    {
        environment.set(hub::HUB_VARIABLE, own);
    }
}

/// Decides between the modes and reports the reason.
fn wants_namespace(options: &RunOptions, needs: &Needs) -> Result<bool, StartFailure> {
    let (why, certain) = match (&options.mode, &needs.reach) {
        (RunMode::Plain, _) => return Ok(false),
        (RunMode::Namespace, _) => return Ok(true),
        (RunMode::Auto, Reach::LibraryPath) => {
            options.report(|| "the library path suffices".into());
            return Ok(false);
        }
        (RunMode::Auto, Reach::Namespace(why)) => (why, true),
        (RunMode::Auto, Reach::Unknown(why)) => (why, false),
    };
    let Some(problem) = probe()? else {
        options.report(|| format!("in a namespace: {why}"));
        return Ok(true);
    };
    let note = || format!("no namespace ({problem}), though {why}: using the library path only");
    if certain && needs.hidden.is_empty() {
        eprintln!("longarm: {}", note());
    } else {
        options.report(note);
    }
    Ok(false)
}

/// Tries in a child process to make a namespace; returns the reason if that fails. (A process
/// that fails half-way cannot go back.)
fn probe() -> Result<Option<String>, StartFailure> {
    let mut child = Command::new("/proc/self/exe");
    let output = child.arg(command::PROBE).stdin(Stdio::null()).output();
    let output = output.map_err(StartFailure::system("try a namespace"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((!output.status.success()).then_some(said))
}

/// The files that Longarm's library replaces.
fn replaced(library: &Library, needs: &Needs, search: &Search) -> Vec<PathBuf> {
    let system = library.names().flat_map(|name| search.system(name));
    let files = system.chain(needs.hidden.iter().cloned()).filter_map(|path| fs::canonicalize(path).ok());
    let mut files: Vec<PathBuf> = files.filter(|file| *file != library.file && fits(file, library.machine)).collect();
    files.sort();
    files.dedup();
    files
}

/// Writes the tree into the runtime directory, once for each content; returns the directory in place of `/sys`.
fn write_tree(tree: &Tree, runtime_dir: &Path) -> Result<PathBuf, StartFailure> {
    let name = format!("{TREE_PREFIX}{:016x}", stable_hash(tree));
    let root = runtime_dir.join(&name);
    if root.is_dir() {
        return Ok(root);
    }
    let write = || {
        remove_oldest(runtime_dir)?;
        // A temporary directory removes itself on failure: on a full disk half a tree would take space.
        let new = tempfile::Builder::new().prefix("new-").tempdir_in(runtime_dir)?;
        let class = new.path().join("class");
        fs::create_dir(&class)?;
        tree.write(&class)?;
        match fs::rename(new.path(), &root) {
            Ok(()) => drop(new.keep()),
            // Another process has written the same tree first.
            Err(_) if root.is_dir() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    };
    write().map_err(StartFailure::system(format!("write {}", root.display())))?;
    Ok(root)
}

/// Makes room for one more tree.
fn remove_oldest(runtime_dir: &Path) -> io::Result<()> {
    let is_tree = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(TREE_PREFIX);
    let entries = fs::read_dir(runtime_dir)?.flatten().filter(is_tree);
    let mut trees: Vec<_> = entries.filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path()))).collect();
    trees.sort();
    let surplus = trees.len().saturating_sub(TREES_KEPT - 1);
    // Another process may remove the same one.
    trees.iter().take(surplus).for_each(|(_, path)| drop(fs::remove_dir_all(path)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_could_not_be_written_leaves_nothing() {
        let dir = env::temp_dir().join(format!("longarm-no-tree-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut tree = Tree::default();
        // Like a full disk, this fails after a part is written: the value occupies the directory's name.
        tree.value("a", 1);
        tree.value("a/b", 2);
        assert!(write_tree(&tree, &dir).is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn trees_are_written_once_and_the_oldest_go() {
        let dir = env::temp_dir().join(format!("longarm-trees-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let tree = |value: usize| {
            let mut tree = Tree::default();
            tree.value("infiniband/la_lo/value", value);
            tree
        };
        let root = write_tree(&tree(0), &dir).unwrap();
        assert_eq!(fs::read_to_string(root.join("class/infiniband/la_lo/value")).unwrap(), "0\n");
        assert_eq!(write_tree(&tree(0), &dir).unwrap(), root);
        let roots: Vec<PathBuf> = (1..=TREES_KEPT).map(|value| write_tree(&tree(value), &dir).unwrap()).collect();
        assert!(roots.last().unwrap().is_dir());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), TREES_KEPT);
        fs::remove_dir_all(&dir).unwrap();
    }
}
