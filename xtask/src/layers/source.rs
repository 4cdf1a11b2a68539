//! Reads the modules of a crate from its source files: items, imports and the paths that each file uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, UseTree};

/// A module, as its path of names from the crate's root.
pub(super) type ModulePath = Vec<String>;

/// The source of one module, without code that only tests compile.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Names that the module itself defines.
    pub(super) items: BTreeSet<String>,
    /// Those of them that are structs, enums, unions and traits.
    pub(super) types: BTreeSet<String>,
    /// Names that it imports or re-exports, with the path behind each.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Modules that it imports with a glob.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path of at least two segments that its code uses, imports included.
    pub(super) uses: BTreeSet<Vec<String>>,
    /// The module whose file holds it: itself, or an outer one if it is inline.
    pub(super) file: ModulePath,
}

/// All modules of the crate with this root file, `lib.rs` or `main.rs`.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(super) fn modules_of(root: &Path) -> Result<BTreeMap<ModulePath, Module>, String> {
    let mut all = BTreeMap::new();
    let directory = root.parent().unwrap_or(Path::new("")).to_path_buf();
    read_file(root, &directory, Vec::new(), &mut all)?;
    Ok(all)
}

/// Reads a file and the files of its child modules, which lie in `directory`.
fn read_file(
    file: &Path,
    directory: &Path,
    path: ModulePath,
    all: &mut BTreeMap<ModulePath, Module>,
) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut children = Vec::new();
    enter(&parsed.items, path.clone(), &path, all, &mut children);
    for child in children {
        let (file, directory) = file_of(directory, &path, &child)?;
        read_file(&file, &directory, child, all)?;
    }
    Ok(())
}

/// Adds a module and its inline modules; `children` gets the modules that have files of their own.
fn enter(
    items: &[Item],
    path: ModulePath,
    file: &ModulePath,
    all: &mut BTreeMap<ModulePath, Module>,
    children: &mut Vec<ModulePath>,
) {
    let mut module = Module { file: file.clone(), ..Module::default() };
    for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
        match item {
            Item::Mod(child) => {
                let child_path = [path.clone(), vec![child.ident.to_string()]].concat();
                match &child.content {
                    Some((_, items)) => enter(items, child_path, file, all, children),
                    None => children.push(child_path),
                }
            }
            Item::Use(item) => module.import(&item.tree, Vec::new()),
            item => {
                module.items.extend(name(item));
                module.types.extend(name(item).filter(|_| defines_type(item)));
                Paths(&mut module.uses).visit_item(item);
            }
        }
    }
    all.insert(path, module);
}

impl Module {
    fn import(&mut self, tree: &UseTree, mut before: Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
            }
            UseTree::Name(name) if name.ident == "self" => self.import_as(before.last().cloned(), before),
            UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.import_as(before.last().cloned(), before);
            }
            UseTree::Rename(name) => {
                if name.ident != "self" {
                    before.push(name.ident.to_string());
                }
                self.import_as(Some(name.rename.to_string()), before);
            }
            UseTree::Glob(_) => {
                self.uses.insert(before.clone());
                self.globs.push(before);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before.clone())),
        }
    }

    fn import_as(&mut self, name: Option<String>, path: Vec<String>) {
        self.uses.insert(path.clone());
        if let Some(name) = name {
            self.imports.insert(name, path);
        }
    }
}

/// The file of a child module, and the directory of that module's children.
fn file_of(directory: &Path, parent: &ModulePath, child: &ModulePath) -> Result<(PathBuf, PathBuf), String> {
    // An inline module between the two is a directory as well.
    let within = directory.join(child[parent.len()..].join("/"));
    let alone = within.with_extension("rs");
    let with_children = within.join("mod.rs");
    match (alone.exists(), with_children.exists()) {
        (true, _) => Ok((alone, within)),
        (false, true) => Ok((with_children, within)),
        (false, false) => Err(format!("module {} has no file at {}", child.join("::"), alone.display())),
    }
}

/// Collects paths from code.
struct Paths<'a>(&'a mut BTreeSet<Vec<String>>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // An import inside a function.
        let mut module = Module::default();
        module.import(&item.tree, Vec::new());
        self.0.extend(module.uses);
    }
}

/// Whether only tests, or other special builds, compile something with these attributes.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        attribute.path().is_ident("cfg") && (condition.starts_with("test") || condition.contains("any (test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defines_type(item: &Item) -> bool {
    matches!(item, Item::Struct(_) | Item::Enum(_) | Item::Union(_) | Item::Trait(_))
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
