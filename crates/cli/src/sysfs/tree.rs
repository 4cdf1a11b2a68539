//! Directories, files and links, in memory and on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    Directory,
    File(String),
    Link(String),
}

/// A tree of files. Directories above a file need not be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// A directory that is there even if nothing is in it.
    pub(crate) fn directory(&mut self, path: impl Into<String>) {
        self.nodes.insert(path.into(), Node::Directory);
    }

    /// A file with one value and the end of the line, as in sysfs.
    pub(crate) fn value(&mut self, path: impl Into<String>, value: impl std::fmt::Display) {
        self.nodes.insert(path.into(), Node::File(format!("{value}\n")));
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.nodes.insert(path.into(), Node::Link(target.into()));
    }

    /// Makes the tree below a directory that exists.
    ///
    /// # Errors
    /// What the system says; a part may be there then.
    pub(crate) fn write(&self, below: &Path) -> io::Result<()> {
        for (path, node) in &self.nodes {
            let path = below.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            match node {
                Node::Directory => fs::create_dir_all(&path)?,
                Node::File(text) => fs::write(&path, text)?,
                Node::Link(target) => std::os::unix::fs::symlink(target, &path)?,
            }
        }
        Ok(())
    }

    /// One line for each name: `path = value`, `path -> target`, `path/`.
    #[cfg(test)]
    pub(super) fn to_text(&self) -> String {
        let line = |(path, node): (&String, &Node)| match node {
            Node::Directory => format!("{path}/\n"),
            Node::File(text) => format!("{path} = {}\n", text.trim_end()),
            Node::Link(target) => format!("{path} -> {target}\n"),
        };
        self.nodes.iter().map(line).collect()
    }
}
