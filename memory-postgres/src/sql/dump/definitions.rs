//! The definitions in a schema, as written to a dump: in an order that is independent of their creation, so that a
//! database and its copy have the same dump, and in a form that an agent may write.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;

/// One definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Defined {
    /// The position of its kind.
    place: i32,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) text: Option<String>,
    pub(crate) columns: Vec<String>,
    /// Its id, if others refer to it.
    pub(crate) id: Option<String>,
    /// The ids of definitions that must come before it.
    pub(crate) needs: Vec<String>,
}

impl Defined {
    /// A row of `definitions.sql`.
    pub(crate) fn of(row: &Row) -> Self {
        let (kind, text): (String, Option<String>) = (row.get(1), row.get(3));
        let is_deparsed = matches!(kind.as_str(), "type" | "table" | "alteration" | "index" | "view");
        Self {
            place: row.get(0),
            name: row.get(2),
            text: if is_deparsed { text.as_deref().map(as_written) } else { text },
            kind,
            columns: row.get::<_, Option<Vec<String>>>(4).unwrap_or_default(),
            id: row.get(5),
            needs: row.get::<_, Option<Vec<String>>>(6).unwrap_or_default(),
        }
    }
}

/// Sorts by position and name, but each after what it needs. A definition in a dependency cycle is placed as if it did
/// not depend on itself.
pub(crate) fn in_order(mut defined: Vec<Defined>) -> Vec<Defined> {
    defined.sort();
    let at: HashMap<&str, usize> =
        defined.iter().enumerate().filter_map(|(at, one)| Some((one.id.as_deref()?, at))).collect();
    let mut needs: Vec<BTreeSet<usize>> = Vec::with_capacity(defined.len());
    let mut needed_by: HashMap<usize, Vec<usize>> = HashMap::new();
    for (own, one) in defined.iter().enumerate() {
        let before: BTreeSet<usize> =
            one.needs.iter().filter_map(|id| at.get(id.as_str()).copied()).filter(|at| *at != own).collect();
        for need in &before {
            needed_by.entry(*need).or_default().push(own);
        }
        needs.push(before);
    }
    let (mut ready, mut waiting): (BTreeSet<usize>, BTreeSet<usize>) =
        (0..defined.len()).partition(|own| needs.get(*own).is_none_or(BTreeSet::is_empty));
    let mut defined: Vec<Option<Defined>> = defined.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(defined.len());
    while let Some(next) = ready.pop_first().or_else(|| waiting.pop_first()) {
        ordered.extend(defined.get_mut(next).and_then(Option::take));
        for own in needed_by.remove(&next).unwrap_or_default() {
            let Some(before) = needs.get_mut(own) else { continue };
            before.remove(&next);
            if before.is_empty() && waiting.remove(&own) {
                ready.insert(own);
            }
        }
    }
    ordered
}

/// Removes what the engine adds to an agent's text: casts of literals to types that an agent may not name, or where the
/// grammar has none. The result prints the same after being recreated.
pub(crate) fn as_written(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"', '(']) {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        let end = match from.as_bytes().first() {
            Some(b'(') => 1,
            Some(quote) => {
                let has_escapes = *quote == b'\'' && before.ends_with(['E', 'e']);
                quoted(from, char::from(*quote), has_escapes)
            }
            None => break,
        };
        let (token, after) = from.split_at(end);
        written.push_str(token);
        rest = after;
        if token == "(" && after.starts_with("VALUES ") {
            written.push(' ');
        } else if token.starts_with('\'') {
            rest = without_cast(after);
        }
    }
    written.push_str(rest);
    written
}

/// The end of a quoted text.
fn quoted(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if has_escapes && character == '\\' {
            characters.next();
        } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

/// The text after a literal, without a redundant cast.
fn without_cast(after: &str) -> &str {
    let is_end =
        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_' || next == '[');
    for name in ["::regclass", "::regconfig"] {
        if let Some(rest) = after.strip_prefix(name).filter(|rest| is_end(rest)) {
            return rest;
        }
    }
    after
        .strip_prefix("::interval")
        .filter(|rest| rest.starts_with(" PRECEDING") || rest.starts_with(" FOLLOWING"))
        .unwrap_or(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_then_names_decide() {
        let one = |place, name: &str, needs: &[&str]| Defined {
            place,
            name: name.to_owned(),
            id: Some(name.to_owned()),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            ..Defined::default()
        };
        let mut made = vec![
            one(8, "a", &["z", "not here"]),
            one(8, "z", &["t"]),
            one(8, "b", &["b"]),
            one(3, "t", &["late"]),
            one(1, "late", &["s"]),
            one(3, "s", &[]),
            one(1, "early", &[]),
            one(8, "x", &["y"]),
            one(8, "y", &["x"]),
        ];
        for _ in 0..2 {
            let names: Vec<String> = in_order(made.clone()).into_iter().map(|one| one.name).collect();
            assert_eq!(names, ["early", "s", "late", "t", "b", "z", "a", "x", "y"]);
            made.reverse();
        }
    }

    #[test]
    fn casts_that_agents_may_not_write_are_removed_outside_quotes() {
        for (printed, written) in [
            ("to_tsvector('english'::regconfig, b)", "to_tsvector('english', b)"),
            ("nextval('\"it''s\"'::regclass)", "nextval('\"it''s\"')"),
            ("'x'::regclass[]", "'x'::regclass[]"),
            ("'a ''b''::regconfig'::text", "'a ''b''::regconfig'::text"),
            (r"E'a \'b\'::regconfig'::text", r"E'a \'b\'::regconfig'::text"),
            ("\"'s'::regclass\" || 's'::regclass", "\"'s'::regclass\" || 's'"),
            ("RANGE '1 day'::interval PRECEDING", "RANGE '1 day' PRECEDING"),
            ("now() - '1 day'::interval", "now() - '1 day'::interval"),
            ("FROM (VALUES (1), ('(VALUES (2))'))", "FROM ( VALUES (1), ('(VALUES (2))'))"),
            ("'é'::regconfig", "'é'"),
            ("'never ends", "'never ends"),
        ] {
            assert_eq!(as_written(printed), written);
            assert_eq!(as_written(written), written);
        }
    }
}
