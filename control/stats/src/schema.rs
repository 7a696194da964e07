//! The schema of the JSON formats, as `show schema json` prints it.

/// One line of JSON Schema (draft 4) that describes `show info json` and `show stat json`.
pub const SCHEMA: &str = include_str!("schema.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_one_line_of_json() {
        assert!(SCHEMA.starts_with("{\"$schema\":") && SCHEMA.ends_with("}\n"));
        assert_eq!(SCHEMA.matches('\n').count(), 1);
    }
}
