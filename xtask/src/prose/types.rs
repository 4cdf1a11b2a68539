//! Names of our types in the place of English words, as a careless renaming leaves them.

use std::collections::BTreeSet;

use regex::Regex;

/// The names of types that no English word looks like: two capitals at least, the second not first.
pub(super) struct TypeNames {
    names: BTreeSet<String>,
    quoted: Regex,
    name: Regex,
}

impl TypeNames {
    /// Collects the names that these sources define.
    pub(super) fn of<'a>(sources: impl Iterator<Item = &'a str>) -> Result<TypeNames, String> {
        let regex = |text: &str| Regex::new(text).map_err(|e| e.to_string());
        let definition = regex(r"\b(?:struct|enum|trait|type|union)\s+([A-Z][a-z0-9]+[A-Z]\w*)")?;
        let names = sources.flat_map(|source| definition.captures_iter(source)).map(|found| found[1].to_string());
        Ok(TypeNames {
            names: names.collect(),
            quoted: regex(r"`[^`]*`|\[[^\]]*\](?:\([^)]*\))?:?|\w*::\S*|\S*::\w*|\w+<\S*")?,
            name: regex(r"\b[A-Z][a-z0-9]+[A-Z]\w*\b")?,
        })
    }

    /// The first name that stands in a paragraph like a word, without backquotes.
    pub(super) fn bare_in(&self, paragraph: &str) -> Option<String> {
        let words = self.quoted.replace_all(paragraph, " ");
        self.name
            .find_iter(&words)
            .map(|found| found.as_str())
            .find(|name| self.names.contains(*name))
            .map(String::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_needs_backquotes() {
        let types = TypeNames::of(["struct TestTransport;\nenum Kind {}"].into_iter()).unwrap();
        assert_eq!(types.bare_in("TestTransport service"), Some("TestTransport".into()));
        assert_eq!(
            types.bare_in("A `TestTransport`, a [`TestTransport`], x::TestTransport, [it](TestTransport)"),
            None
        );
        assert_eq!(types.bare_in("Kind of AddressSanitizer"), None);
    }
}
