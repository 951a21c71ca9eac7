//! The arguments of virtual tables: which of them reach beyond the table itself.

use crate::gate::names::sqlite_name as name;
use crate::policy::Policy;
use crate::refusals::{reserved, short};
use crate::verdict::{Position, Refusal, Stage};

/// Tokenizers of FTS5 that are part of the engine.
const TOKENIZERS: &[&str] = &["unicode61", "ascii", "porter", "trigram"];
/// Options of FTS5.
const OPTIONS: &[&str] = &[
    "tokenize",
    "prefix",
    "content",
    "content_rowid",
    "columnsize",
    "detail",
    "contentless_delete",
    "contentless_unindexed",
    "locale",
    "insttoken",
];

/// Refuses disallowed arguments of a module.
pub(crate) fn check(
    stage: Stage,
    position: Position,
    module: &str,
    arguments: &[&str],
    policy: &Policy,
) -> Result<(), Refusal> {
    if module != "fts5" {
        return Ok(());
    }
    for argument in arguments {
        // An option's name is a bare word; a column's may be quoted.
        if argument.trim_start().starts_with(['"', '\'', '`', '[']) {
            continue;
        }
        let Some((option, value)) = argument.split_once('=') else { continue };
        let option = name(option.trim()).into_owned();
        let value = name(value.trim()).into_owned();
        let refused = |why: &str, instead: &str| {
            Err(Refusal::new(stage, "module_option", position, short(&format!("{option}=")))
                .because(why)
                .instead(instead))
        };
        match option.as_str() {
            "tokenize" => {
                // The tokenizer is the first argument; porter takes the one it wraps.
                let mut words = value.split_ascii_whitespace().map(|word| name(word).into_owned());
                let mut first = words.next().unwrap_or_default();
                if first == "porter" {
                    first = words.next().unwrap_or(first);
                }
                if !TOKENIZERS.contains(&first.as_str()) {
                    return refused(
                        "no such tokenizer",
                        "use unicode61, ascii, trigram, or porter with one of them",
                    );
                }
            }
            "content" => {
                let table = value.as_str();
                // FTS5 accepts a dot as part of the name; the author means a schema.
                if table.split('.').any(|part| policy.is_reserved(part)) {
                    return Err(reserved(stage, position, table));
                }
            }
            known if OPTIONS.contains(&known) => {}
            _ => return refused("FTS5 has no such option", "leave it out"),
        }
    }
    Ok(())
}
