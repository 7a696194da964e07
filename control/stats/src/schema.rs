//! The JSON schema printed by `show schema json`.

/// A JSON Schema (draft 4), on one line, for `show info json` and `show stat json`.
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
