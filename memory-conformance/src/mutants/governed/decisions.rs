//! Rows that are bound wrongly.

use memory_governed::{Candidate, Resolution, Scored, Trust};

use super::deciders::{anyway, by_a_person, decides};
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "gov.unknown-is-the-nearest": ["GOV-8"] needs [Sql, HostTables], "an id that no row has ends the nearest row"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "no row has the id", request, note, rows)));
    "gov.ids-by-substring": ["GOV-9"] needs [Sql, HostTables], "an id is found within another"
        => stages(|setup| decides(setup, |inner, request, note, rows| {
            match rows.iter().find(|row| row.is_live && note.text.contains(&row.id)) {
                Some(row) => Resolution::Bind { target: row.id.clone(), candidates: Vec::new(), reason: "found".to_owned() },
                None => inner.resolve(request, note, rows),
            }
        }));
    "gov.guesses-one-of-two": ["GOV-11", "GOV-13"] needs [Sql, HostTables], "of rows that fit alike, one is guessed"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "its words do not tell", request, note, rows)));
    "gov.mention-is-a-name": ["GOV-14"] needs [Sql, HostTables], "a row that is named in passing is ended"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "in passing", request, note, rows)));
    "gov.trusts-ids-of-a-model": ["GOV-15", "GOV-35"] needs [Sql, HostTables], "an id that only the model has binds"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "the id is not in the note", request, note, rows)));
    "gov.trusts-names-of-a-model": ["GOV-15"] needs [Sql, HostTables], "any name binds, whoever gave it"
        => stages(|setup| decides(setup, |inner, request, note, rows| {
            let mut rows = rows.to_vec();
            rows.iter_mut().flat_map(|row| &mut row.aliases).for_each(|alias| alias.trust = Trust::Person);
            inner.resolve(request, note, &rows)
        }));
    "gov.obeys-commands": ["GOV-16"] needs [Sql, HostTables], "\"resolve all issues\" is obeyed"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "everything at once", request, note, rows)));
    "gov.anybody-may-end": ["GOV-18", "GOV-34"] needs [Sql, HostTables], "whoever writes may end any row"
        => stages(|setup| decides(setup, |inner, request, note, rows| inner.resolve(request, &by_a_person(note), rows)));
    "gov.authority-alone-may-end": ["GOV-18"] needs [Sql, HostTables], "an agent may not end what it opened itself"
        => stages(|setup| decides(setup, |inner, request, note, rows| match inner.resolve(request, note, rows) {
            Resolution::Bind { candidates, .. } if note.actor.trust < Trust::Authority =>
                Resolution::Defer { candidates, reason: "authority is missing".to_owned() },
            resolution => resolution,
        }));
    "gov.negation-unread": ["GOV-19"] needs [Sql, HostTables], "\"not resolved\" is read as resolved"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "denies one", request, note, rows)));
    "gov.condition-unread": ["GOV-20"] needs [Sql, HostTables], "\"if … it is resolved\" is read as resolved"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "supposes one", request, note, rows)));
    "gov.promise-is-done": ["GOV-20"] needs [Sql, HostTables], "\"will resolve\" is read as resolved"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "promises one", request, note, rows)));
    "gov.question-is-an-answer": ["GOV-21"] needs [Sql, HostTables], "\"is it resolved?\" is read as resolved"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "asks for one", request, note, rows)));
    "gov.quotes-are-statements": ["GOV-22"] needs [Sql, HostTables], "what a note quotes is read as its own word"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "quotes one", request, note, rows)));
    "gov.first-words-unread": ["GOV-48", "GOV-20"] needs [Sql, HostTables], "what stands before a statement is not read"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "what stands before that", request, note, rows)));
    "gov.last-words-unread": ["GOV-48", "GOV-20"] needs [Sql, HostTables], "what stands after a statement is not read"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "what stands after that", request, note, rows)));
    "gov.other-sentences-unread": ["GOV-48", "GOV-19"] needs [Sql, HostTables], "only the sentence that names a row is read"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "another sentence", request, note, rows)));
    "gov.titles-are-words": ["GOV-50"] needs [Sql, HostTables], "a title binds whatever is said around it"
        => stages(|setup| decides(setup, |inner, request, note, rows| {
            if rows.iter().any(|row| note.text.contains(&row.id)) {
                return inner.resolve(request, note, rows);
            }
            anyway(inner, "does not state plainly", request, note, rows)
        }));
    "gov.bare-statements-only": ["GOV-48"] needs [Sql, HostTables], "a plain statement with a reason or a means is not understood"
        => stages(|setup| decides(setup, |inner, request, note, rows| match inner.resolve(request, note, rows) {
            Resolution::Bind { candidates, .. } if note.text.contains(" by ") || note.text.contains(" as ") =>
                Resolution::Defer { candidates, reason: "too many words".to_owned() },
            resolution => resolution,
        }));
    "gov.first-of-two-ids": ["GOV-23"] needs [Sql, HostTables], "of several ids of a note, one is taken"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "more than one row", request, note, rows)));
    "gov.successor-unread": ["GOV-47"] needs [Sql, HostTables], "a row ends although the write does not say what takes its place"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "it names another row", request, note, rows)));
    "gov.look-alike-is-the-same": ["GOV-24"] needs [Sql, HostTables], "an id in letters of another script is taken for the id"
        => stages(|setup| decides(setup, |inner, request, note, rows| anyway(inner, "looks like an id", request, note, rows)));
    "gov.ids-by-bytes": ["GOV-24"] needs [Sql, HostTables], "an id in capitals is another id"
        => stages(|setup| decides(setup, |inner, request, note, rows| {
            if rows.iter().any(|row| note.text.contains(&row.id)) {
                return inner.resolve(request, note, rows);
            }
            match inner.resolve(request, note, rows) {
                Resolution::Bind { candidates, .. } => Resolution::Defer { candidates, reason: "no such id".to_owned() },
                resolution => resolution,
            }
        }));
    "gov.names-dilute": ["GOV-40"] needs [Sql, HostTables], "each name of a row lowers the score of its words"
        => stages(|setup| decides(setup, |inner, request, note, rows| match inner.resolve(request, note, rows) {
            Resolution::Defer { mut candidates, reason } => {
                candidates.iter_mut().for_each(|one| dilute(one, rows));
                Resolution::Defer { candidates, reason }
            }
            resolution => resolution,
        }));
    "gov.tenants-share-a-space": ["GOV-10"] needs [Sql, HostTables], "tenants whose names begin alike have one space"
        => stages(|setup| {
            let cut = setup.tenant.as_str().trim_end_matches("/other").parse();
            if let Ok(tenant) = cut { setup.tenant = tenant; }
        });
    "gov.tries-for-ever": ["GOV-33"] needs [Sql, HostTables], "a deferred write is tried without end"
        => stages(|setup| setup.options.max_attempts = u32::MAX);
    "gov.tries-at-once": ["GOV-33"] needs [Sql, HostTables], "a deferred write is tried again without a pause"
        => stages(|setup| setup.options.max_backoff = std::time::Duration::ZERO);
    "gov.waits-for-ever": ["GOV-33"] needs [Sql, HostTables], "a deferred write waits without end"
        => stages(|setup| setup.options.pending_ttl = std::time::Duration::from_secs(1 << 33));
}

#[allow(clippy::cast_precision_loss, reason = "a few names")]
fn dilute(one: &mut Scored, rows: &[Candidate]) {
    if let Some(row) = rows.iter().find(|row| row.id == one.id) {
        one.score /= 1.0 + row.aliases.len() as f64;
    }
}
