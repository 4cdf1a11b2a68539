//! The command line of `rdma`, as far as this program answers it.

use std::ffi::OsString;

/// The object of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueryObject {
    Device,
    Link,
    System,
}

/// The objects' names; any prefix is accepted, as in iproute2.
const OBJECTS: [(&str, QueryObject); 3] =
    [("dev", QueryObject::Device), ("link", QueryObject::Link), ("system", QueryObject::System)];
const COMMANDS: [&str; 2] = ["show", "list"];

/// A query that this program can answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct RdmaQuery {
    pub(super) object: QueryObject,
    pub(super) json: bool,
    pub(super) pretty: bool,
    /// One device, or its port.
    pub(super) which: Option<String>,
}

impl RdmaQuery {
    /// Parses the arguments; `None` if iproute2's program must answer them.
    pub(super) fn parse(arguments: &[OsString]) -> Option<RdmaQuery> {
        let mut request = RdmaQuery { object: QueryObject::System, json: false, pretty: false, which: None };
        let mut words = Vec::new();
        for argument in arguments {
            match argument.to_str()? {
                option if option.starts_with('-') => request.option(option)?,
                word => words.push(word),
            }
        }
        let (object, rest) = words.split_first()?;
        request.object = OBJECTS.iter().find(|(name, _)| is_beginning(object, name))?.1;
        request.which = match *rest {
            [] => None,
            [command] if is_show(command) => None,
            [command, which] if is_show(command) && request.object != QueryObject::System => Some(which.to_owned()),
            _ => return None,
        };
        Some(request)
    }

    fn option(&mut self, option: &str) -> Option<()> {
        match option {
            "--json" => self.json = true,
            "--pretty" => self.pretty = true,
            "--details" => {}
            _ => {
                for letter in option.strip_prefix('-')?.chars() {
                    match letter {
                        'j' => self.json = true,
                        'p' => self.pretty = true,
                        'd' => {}
                        _ => return None,
                    }
                }
            }
        }
        Some(())
    }

    /// Whether the query includes this device.
    pub(super) fn names(&self, device: &str) -> bool {
        let port = format!("{device}/1");
        self.which.as_ref().is_none_or(|which| which == device || self.object == QueryObject::Link && *which == port)
    }
}

fn is_beginning(word: &str, of: &str) -> bool {
    !word.is_empty() && of.starts_with(word)
}

fn is_show(word: &str) -> bool {
    COMMANDS.iter().any(|command| is_beginning(word, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<RdmaQuery> {
        RdmaQuery::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn show_queries_are_parsed() {
        let link = |json, which: Option<&str>| {
            Some(RdmaQuery { object: QueryObject::Link, json, pretty: false, which: which.map(Into::into) })
        };
        for (line, expected) in [
            ("link show -j", link(true, None)),
            ("-j link", link(true, None)),
            ("l s", link(false, None)),
            ("--json -d link list la_lo/1", link(true, Some("la_lo/1"))),
            ("link show la_lo", link(false, Some("la_lo"))),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
        assert_eq!(of("-jp dev").map(|request| (request.object, request.pretty)), Some((QueryObject::Device, true)));
        assert_eq!(of("system show").map(|request| request.object), Some(QueryObject::System));
    }

    #[test]
    fn everything_else_is_for_the_other_program() {
        for line in
            ["", "-j", "-V", "resource show", "link add x type rxe", "dev set x name y", "link show a b", "-Z link"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
