//! Directories, files and links, in memory and on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// An entry of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TreeNode {
    Directory,
    File(String),
    LinkRate(String),
}

/// A tree of files. It makes the directories above a file implicitly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, TreeNode>,
}

impl Tree {
    /// Adds a directory, which may stay empty.
    pub(crate) fn directory(&mut self, path: impl Into<String>) {
        self.nodes.insert(path.into(), TreeNode::Directory);
    }

    /// Adds a file with one value and a newline, as in sysfs.
    pub(crate) fn value(&mut self, path: impl Into<String>, value: impl std::fmt::Display) {
        self.nodes.insert(path.into(), TreeNode::File(format!("{value}\n")));
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.nodes.insert(path.into(), TreeNode::LinkRate(target.into()));
    }

    /// Writes the tree into an existing directory.
    ///
    /// # Errors
    /// The system's error; a part of the tree may be written.
    pub(crate) fn write(&self, below: &Path) -> io::Result<()> {
        for (path, node) in &self.nodes {
            let path = below.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            match node {
                TreeNode::Directory => fs::create_dir_all(&path)?,
                TreeNode::File(text) => fs::write(&path, text)?,
                TreeNode::LinkRate(target) => std::os::unix::fs::symlink(target, &path)?,
            }
        }
        Ok(())
    }

    /// One line for each entry: `path = value`, `path -> target`, `path/`.
    #[cfg(test)]
    pub(super) fn to_text(&self) -> String {
        let line = |(path, node): (&String, &TreeNode)| match node {
            TreeNode::Directory => format!("{path}/\n"),
            TreeNode::File(text) => format!("{path} = {}\n", text.trim_end()),
            TreeNode::LinkRate(target) => format!("{path} -> {target}\n"),
        };
        self.nodes.iter().map(line).collect()
    }
}
