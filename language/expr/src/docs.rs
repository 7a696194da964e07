//! Lists of keywords, as the command line's `-dK` prints them.

use std::fmt::Write as _;

use crate::converters;
use crate::fetch::{EvaluationPoint, Registry};

/// The ACL keywords (`-dKacl`).
pub fn acl_keywords(registry: &Registry) -> String {
    let mut out = String::from("# List of registered ACL keywords:\n");
    for row in registry.acl_keywords() {
        let _ = writeln!(out, "{} = {} -m {}", row.name, row.fetch, row.method.name());
    }
    out
}

/// The converters (`-dKcnv`): name, arguments, output and input.
pub fn converters() -> String {
    let mut out = String::from("# List of registered sample converter functions:\n");
    for row in converters::all() {
        let _ = writeln!(out, "{}{}: {} => {}", row.name, row.args, row.output.name(), row.input.name());
    }
    out
}

/// The fetches (`-dKsmp`): where they are valid, name, arguments and output.
pub fn fetches(registry: &Registry) -> String {
    let mut out = String::from("# List of registered sample fetch functions:\n");
    legend(&mut out);
    for decl in registry.fetches() {
        out.push('[');
        for point in EvaluationPoint::ALL {
            out.push_str(if decl.valid.contains(point) { " Y" } else { " ." });
        }
        let _ = writeln!(out, " ] {}{}: {}", decl.name, decl.args, decl.output.name());
    }
    out
}

/// Draws a diagonal line from the name of each point down to its column.
fn legend(out: &mut String) {
    let count = EvaluationPoint::ALL.len();
    for (index, point) in EvaluationPoint::ALL.iter().enumerate() {
        let _ = write!(out, "#{:1$}", "", count + 1 - index);
        for _ in 0..index {
            out.push_str("/ ");
        }
        let _ = writeln!(out, "_.{:-<1$} {2}", "", count - index, point.name());
    }
    for mark in ["/", "|"] {
        out.push('#');
        for _ in 0..count {
            let _ = write!(out, " {mark}");
        }
        out.push_str(if mark == "/" { "  \n" } else { " \n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HAProxy's list; not all of it is implemented.
    const CONVERTERS: &str = include_str!("../tests/data/converters.txt");

    #[test]
    fn converters_are_declared_as_in_haproxy() {
        let differing: Vec<String> = converters()
            .lines()
            .filter(|line| !CONVERTERS.lines().any(|reference| reference == *line))
            .map(Into::into)
            .collect();
        assert!(differing.is_empty(), "{differing:#?}");
    }

    #[test]
    fn the_fetch_list_has_a_column_for_each_rule_set() {
        let list = fetches(&Registry::new(&[]));
        let lines: Vec<&str> = list.lines().take(25).collect();
        assert_eq!(lines[1], format!("#{:23}_.{:-<22} frontend tcp-request connection rule", "", ""));
        assert_eq!(lines[22], format!("#  {}_.- CLI parser", "/ ".repeat(21)));
        assert_eq!(lines[23], format!("#{}  ", " /".repeat(22)));
        assert_eq!(lines[24], format!("#{} ", " |".repeat(22)));
        assert!(
            list.contains("\n[ Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y ] var(string[,string]): any\n"),
            "{list}"
        );
        assert!(list.contains("\n[ Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y ] stopping: bool\n"));
    }
}
