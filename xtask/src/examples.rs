//! Every public type, trait and function of the Rust API has an example, or a link to an item that has one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, UseTree, Visibility};

const ROOT: &str = "crates/longarm/src";

/// The documentation of each public item, that of its public methods included.
type Docs = BTreeMap<String, String>;

/// Checks the crate `longarm`.
pub(crate) fn check() -> Result<(), String> {
    let mut docs = Docs::new();
    for file in files(Path::new(ROOT))? {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        collect(&parsed.items, &mut docs);
    }
    let root = std::fs::read_to_string(format!("{ROOT}/lib.rs")).map_err(|error| error.to_string())?;
    let exported = exported(&syn::parse_file(&root).map_err(|error| error.to_string())?.items);
    let without = without_example(&docs, &exported);
    if without.is_empty() {
        println!("examples: {} public items have one or lead to one", exported.len());
        return Ok(());
    }
    Err(format!("public items without an example or a link to one:\n{}", without.join("\n")))
}

/// The exported items of this crate that neither have an example nor link to an item with one.
fn without_example(docs: &Docs, exported: &BTreeSet<String>) -> Vec<String> {
    let has_example = |doc: &str| doc.contains("```");
    let illustrated: BTreeSet<_> = docs.iter().filter(|(_, doc)| has_example(doc)).map(|(name, _)| name).collect();
    let leads = |doc: &str| words(doc).any(|word| illustrated.contains(&word.to_owned()));
    let missing = docs.iter().filter(|(name, doc)| exported.contains(*name) && !has_example(doc) && !leads(doc));
    missing.map(|(name, _)| name.clone()).collect()
}

/// The words of all links in a text: what stands between brackets, and the targets in parentheses behind them.
fn words(doc: &str) -> impl Iterator<Item = &str> {
    let links = doc.split('[').skip(1).flat_map(|rest| {
        let end = rest.find(']').unwrap_or(0);
        let target = rest[end..].strip_prefix("](").and_then(|target| target.split(')').next());
        [Some(&rest[..end]), target]
    });
    links.flatten().flat_map(|link| link.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
    Ok(found)
}

fn collect(items: &[Item], docs: &mut Docs) {
    let mut add = |name: String, attributes: &[Attribute]| docs.entry(name).or_default().push_str(&doc(attributes));
    for item in items {
        match item {
            Item::Struct(item) if is_public(&item.vis) => add(item.ident.to_string(), &item.attrs),
            Item::Enum(item) if is_public(&item.vis) => add(item.ident.to_string(), &item.attrs),
            Item::Trait(item) if is_public(&item.vis) => add(item.ident.to_string(), &item.attrs),
            Item::Fn(item) if is_public(&item.vis) => add(item.sig.ident.to_string(), &item.attrs),
            Item::Impl(item) if item.trait_.is_none() => {
                let syn::Type::Path(path) = &*item.self_ty else { continue };
                let Some(name) = path.path.segments.last().map(|segment| segment.ident.to_string()) else { continue };
                for method in &item.items {
                    match method {
                        ImplItem::Fn(method) if is_public(&method.vis) => add(name.clone(), &method.attrs),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn doc(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes {
        if let Meta::NameValue(value) = &attribute.meta
            && value.path.is_ident("doc")
            && let Expr::Lit(literal) = &value.value
            && let Lit::Str(line) = &literal.lit
        {
            text.push_str(&line.value());
            text.push('\n');
        }
    }
    text
}

/// The names that the root re-exports.
fn exported(items: &[Item]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in items {
        if let Item::Use(item) = item
            && is_public(&item.vis)
        {
            add_names(&item.tree, &mut names);
        }
    }
    names
}

fn add_names(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => add_names(&path.tree, names),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(names.insert(name.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_names(tree, names)),
        UseTree::Glob(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(source: &str) -> Vec<String> {
        let parsed = syn::parse_file(source).unwrap();
        let mut docs = Docs::new();
        collect(&parsed.items, &mut docs);
        let exported = docs.keys().cloned().collect();
        without_example(&docs, &exported)
    }

    #[test]
    fn an_example_of_its_own_or_a_link_to_one_is_enough() {
        let source = "
            /// ```
            /// ```
            pub struct Shown;
            /// See [`Shown`].
            pub struct Linked;
            /// See [this](crate::Shown::method).
            pub fn named() {}
            pub struct ByMethod;
            impl ByMethod {
                /// ```
                /// ```
                pub fn method(&self) {}
            }
            /// See [`Linked`].
            pub struct Far;
            /// Nothing.
            pub enum Bare {}
        ";
        assert_eq!(missing(source), ["Bare", "Far"]);
    }

    #[test]
    fn private_items_need_none() {
        assert!(missing("/// Private.\nstruct Own;\npub(crate) fn inner() {}").is_empty());
    }
}
