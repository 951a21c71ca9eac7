//! The tables: their schema, versions and migrations.

mod migrate;

pub(crate) use migrate::{State, prepare, repair, script, state};

/// Substitutes names in a statement: `@schema@` is the schema of the tables, `@vector@` that of pgvector, quoted.
pub(crate) fn named(template: &str, schema: &str, vector: Option<&str>) -> String {
    let named = template.replace("@schema@", schema);
    match vector {
        Some(vector) => named.replace("@vector@", vector),
        None => named,
    }
}

/// A text as an SQL identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_substituted() {
        assert_eq!(
            named("SELECT @schema@.f('[1]'::@vector@.vector)", "m", Some("\"v\"")),
            "SELECT m.f('[1]'::\"v\".vector)"
        );
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
