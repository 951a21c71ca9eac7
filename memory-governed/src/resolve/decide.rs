//! The order of the questions: what the note states, whom it names, what its words match, who may.

use std::borrow::Cow;
use std::cell::LazyCell;

use super::ids::{Mention, mentions, occurs};
use super::model::Model;
use super::note_words::NoteWords;
use super::plain::tokens::{name_words, without_statements};
use super::plain::{Unclear, commands, is_calm_where_it_ends, states_plainly};
use super::report::{is_taken_back, report};
use super::resolution::{Binding, BoundBy, DeferReason, OFFERED, Place, Resolution, Scored};
use super::row::{Row, Space};
use super::same_work::is_other_work;
use super::speech::{
    Mood, has_verb_of_ending, is_replaced, named_end, names_another, reported, sentences, states_an_end,
    sweeps, tokens, told, without_quotes,
};
use super::weigh::weigh;
use super::words::{folded, stems};
use crate::bucket::{Bucket, Operation};
use crate::note::{Note, NoteSource, Trust};
use crate::request::WriteRequest;

/// A title of fewer words may be part of a sentence.
const TITLE: usize = 3;

/// Decides which row `request`, made from `note`, means.
///
/// `frozen` are the rows that the note could have meant when it was deferred before; empty for a new note.
///
/// # Behavior
/// - Depends on its arguments alone, not on the order of rows, a clock or a language model.
/// - An id in the note decides on its own, as a whole token in any case. An unknown id, a look-alike or a second id
///   defers, and never falls back to the words.
/// - An id that only the request contains never binds unless the words of the note bind the same row.
/// - A note that names a row, by id, alias or whole title, ends it only with a plain statement; anything around it that
///   is not understood defers.
/// - A note that names no row ends the row its words match only if those words are in sentences about work or an end,
///   and nothing near its verb of ending may change the meaning.
/// - Ends (`resolve`, `invalidate`) need a note that states an end, a row opened by then, and a writer with authority:
///   the row's creator or owner, or trust of at least `authority` and the row's. Tools and untrusted text never end a
///   row.
/// - Aliases bind as whole phrases and never change the score of the words.
#[must_use]
pub fn resolve(space: &Space, request: &WriteRequest, note: &Note, frozen: &[String]) -> Resolution {
    match Model::built_in() {
        Some(model) => resolve_with(model, space, request, note, frozen),
        None => Resolution::defer(DeferReason::Uncertain, Vec::new()),
    }
}

/// As [`resolve`], with another table of weights.
pub(super) fn resolve_with(
    model: &Model,
    space: &Space,
    request: &WriteRequest,
    note: &Note,
    frozen: &[String],
) -> Resolution {
    if request.operation.is_lifecycle() {
        Ending { model, space, request, note, frozen }.resolve()
    } else {
        writing(space, request, note)
    }
}

/// Why a note ends no single row, whichever way it names one.
fn unstated(text: &str, mood: Option<Mood>) -> Option<DeferReason> {
    mood.map(DeferReason::NotStated).or_else(|| sweeps(text).then_some(DeferReason::Sweeping))
}

/// Why a note that names no known row is deferred, whatever its words match.
#[cfg(feature = "lab")]
pub(super) fn before_words(text: &str) -> Option<DeferReason> {
    unstated(text, states_an_end(text))
        .or_else(|| named_end(text).map(DeferReason::UnknownId))
        .or_else(|| names_another(text).then_some(DeferReason::NamesAnother))
}

/// What a write that ends nothing refers to.
fn writing(space: &Space, request: &WriteRequest, note: &Note) -> Resolution {
    let bucket = request.bucket;
    let id = if bucket == Bucket::Plan { Some("main") } else { request.target_id.as_deref() };
    if request.operation == Operation::Append {
        return Resolution::New { id: id.map(str::to_owned) };
    }
    let bound = |id: &str, by| {
        Resolution::Bind(Binding { id: id.to_owned(), by, score: 1.0, candidates: Vec::new() })
    };
    if let Some(id) = id {
        return match space.get(bucket, id) {
            None => Resolution::New { id: Some(id.to_owned()) },
            Some(_) if bucket == Bucket::Plan => bound(id, BoundBy::Id),
            Some(_) if !occurs(&note.text, id) => Resolution::defer(DeferReason::IdNotInNote, offered(id)),
            Some(row) if !row.live && bucket != Bucket::TaskState => {
                Resolution::defer(DeferReason::Ended, offered(id))
            }
            Some(_) => bound(id, BoundBy::Id),
        };
    }
    let member = if bucket == Bucket::Constraints { "text" } else { "title" };
    let title = request.payload.get(member).and_then(|title| title.as_str()).map(folded);
    let same = |row: &&Row| row.live && title.as_ref().is_some_and(|title| *title == folded(&row.title));
    match space.rows(bucket).find(same) {
        Some(row) => bound(&row.id, BoundBy::Title),
        None => Resolution::New { id: None },
    }
}

fn offered(id: &str) -> Vec<Scored> {
    vec![Scored { id: id.to_owned(), score: 1.0 }]
}

/// The rows that a note may mean.
struct Likely {
    /// Those that its words fit best.
    ranked: Vec<Scored>,
    /// Those that are offered where nothing is bound, then the rest of the others: what the words fit is watched, because
    /// nothing may be bound by its end.
    offers: Vec<Scored>,
    /// The log odds that the first of the ranked is meant.
    certainty: f64,
}

/// A write that ends a row.
struct Ending<'a> {
    model: &'a Model,
    space: &'a Space,
    request: &'a WriteRequest,
    note: &'a Note,
    frozen: &'a [String],
}

impl Ending<'_> {
    fn resolve(&self) -> Resolution {
        let text = &self.note.text;
        let own = self.without_others();
        // Not for a note that names its row, as most do.
        let likely = LazyCell::new(|| self.rank());
        let mut mentioned = Vec::new();
        let named = self.named(&own, &mut mentioned);
        // If the note names rows, only those are offered, whatever its words match.
        let defer = |reason| match mentioned.as_slice() {
            [] => Resolution::defer(reason, likely.offers.clone()),
            ids => Resolution::defer(reason, ids.iter().take(OFFERED).flat_map(|id| offered(id)).collect()),
        };
        let live = self.space.rows(self.request.bucket).filter(|row| row.live);
        let mood = states_no_end(text, live.map(|row| (row.id.as_str(), row.title.as_str())));
        if let Some(reason) = unstated(text, mood) {
            return defer(reason);
        }
        let is_live = |id: &String| self.space.get(self.request.bucket, id).is_some_and(|row| row.live);
        match named {
            Err(reason) => return defer(reason),
            Ok(Some((id, by))) => {
                return match self.unclear(&id, &own) {
                    None => self.permit(&id, by, 1.0, Vec::new()),
                    Some(reason) => defer(reason),
                };
            }
            Ok(None) => {}
        }
        if !self.frozen.iter().all(is_live) {
            return defer(DeferReason::CandidateEnded);
        }
        if names_another(text) {
            return defer(DeferReason::NamesAnother);
        }
        let Some(first) = likely.ranked.first().filter(|_| likely.certainty >= self.model.threshold()) else {
            return defer(if self.request.target_id.is_some() {
                DeferReason::IdNotInNote
            } else if self.has_plain_word() {
                DeferReason::PlainWord
            } else {
                DeferReason::Uncertain
            });
        };
        if self.request.target_id.as_ref().is_some_and(|id| *id != first.id) {
            return defer(DeferReason::IdNotInNote);
        }
        let id = first.id.clone();
        if let Some(reason) = self.untold(&id) {
            return defer(reason);
        }
        let odds = likely.certainty.exp();
        self.permit(&id, BoundBy::Words, odds / (1.0 + odds), likely.ranked.clone())
    }

    /// Why a text that names the row does not state its end plainly.
    fn unclear(&self, id: &str, text: &str) -> Option<DeferReason> {
        let successor = self.request.successor();
        let row = self.space.get(self.request.bucket, id);
        // Its own title next to its id adds nothing.
        let title = row.map(|row| format!("\"{}\"", row.title)).unwrap_or_default();
        let spoken =
            without_quotes(&if title.len() > 2 { text.replace(&title, "") } else { text.to_owned() });
        if successor.is_none() && is_replaced(&spoken) {
            return Some(DeferReason::NamesAnother);
        }
        let aliases = row.into_iter().flat_map(telling).map(String::as_str);
        let names: Vec<&str> = aliases.chain([id]).collect();
        // A command is not a statement, but a writer with authority may give one.
        if self.note.actor.trust >= Trust::Authority && commands(&spoken, &names, self.request.operation) {
            return None;
        }
        states_plainly(&spoken, &names, successor, self.request.operation).err().map(
            |unclear| match unclear {
                Unclear::Asks => DeferReason::NotStated(Mood::Question),
                Unclear::At(place) => DeferReason::NotPlain(place),
            },
        )
    }

    /// Why a note whose words fit the row does not say that it has ended.
    fn untold(&self, id: &str) -> Option<DeferReason> {
        let not_plain = |place| Some(DeferReason::NotPlain(place));
        let row = self.space.get(self.request.bucket, id)?;
        let text = &self.note.text;
        // A whole title names the row like its id does, except that a report of work may start with it.
        if has_phrase(text, &row.title) {
            let Some(named) = with_id(text, id, &row.title) else { return not_plain(Place::Before) };
            return match has_verb_of_ending(&named) {
                true => self.unclear(id, &named),
                false if report(text).is_none_or(|one| one.repeats(&row.title).is_none()) => {
                    not_plain(Place::Before)
                }
                false => None,
            };
        }
        let spoken = without_quotes(text);
        if is_taken_back(&spoken) {
            return not_plain(Place::Beside);
        }
        if !has_verb_of_ending(text) {
            return None;
        }
        if !is_calm_where_it_ends(&spoken) {
            return not_plain(Place::After);
        }
        let title = stems(&row.title);
        let shared = |text: &str| {
            let stems = stems(text);
            title.iter().filter(|stem| stems.contains(stem)).count()
        };
        if restates_other_work(text, &row.title) {
            return Some(DeferReason::Uncertain);
        }
        let told = shared(&reported(text));
        if told == 0 || 2 * told < shared(text) { not_plain(Place::Beside) } else { None }
    }

    fn rank(&self) -> Likely {
        let words = NoteWords::new(&told(&self.note.text));
        let weighed = weigh(self.space, self.model, self.request.bucket, &words, self.note.observed_at);
        let ranking = self.model.rank(&weighed);
        let scored = |order: &[(usize, f64)]| -> Vec<Scored> {
            let first = order.iter().take(OFFERED);
            let id = |at: usize| Some(weighed.rows.get(at)?.row.id.clone());
            first.filter_map(|(at, score)| Some(Scored { id: id(*at)?, score: *score })).collect()
        };
        let (ranked, mut offers) = (scored(&ranking.order), scored(&ranking.offers));
        for one in &ranked {
            if !offers.iter().any(|offered| offered.id == one.id) {
                offers.push(one.clone());
            }
        }
        Likely { ranked, offers, certainty: ranking.certainty }
    }

    /// The note without lines that are separate statements, or that plainly end only another row, provided the write
    /// says which row it concerns.
    fn without_others(&self) -> Cow<'_, str> {
        let text = self.note.text.as_str();
        let spoken = without_quotes(text);
        let wanted = self.request.target_id.as_deref().filter(|id| text.contains('\n') && names(&spoken, id));
        let Some(wanted) = wanted else { return text.into() };
        let rows = self.space.rows(self.request.bucket).map(|row| row.id.as_str());
        let ids = named_in(&spoken, rows);
        let ends_another = |line: &&str| {
            let spoken = without_quotes(line);
            let is_plain = |id| states_plainly(&spoken, &[id], None, self.request.operation).is_ok();
            matches!(mentions(&spoken, ids.iter().copied(), None).as_slice(), [Mention::Named(id)] if *id != wanted && is_plain(id))
                && !occurs(&spoken, wanted)
        };
        let text = without_statements(text, &[name_words(wanted)]);
        text.lines().filter(|line| !ends_another(line)).collect::<Vec<_>>().join("\n").into()
    }

    /// The row that a text names; `mentioned` are all that it names.
    fn named(
        &self,
        text: &str,
        mentioned: &mut Vec<String>,
    ) -> Result<Option<(String, BoundBy)>, DeferReason> {
        let bucket = self.request.bucket;
        let wanted = self.request.target_id.as_deref();
        if let Some(wanted) = wanted
            && self.space.get(bucket, wanted).is_none()
        {
            return Err(DeferReason::UnknownId(wanted.to_owned()));
        }
        // An id in a quotation is not the writer's word, and neither are words around it.
        let spoken = without_quotes(text);
        let ids: Vec<&str> = self.space.rows(bucket).map(|row| row.id.as_str()).collect();
        let (mut named, mut aside, mut alike) = (Vec::new(), false, false);
        for mention in mentions(&spoken, ids, wanted) {
            match mention {
                Mention::Named(id) => {
                    mentioned.push(id.to_owned());
                    named.push((id.to_owned(), BoundBy::Id));
                }
                Mention::Aside(_) => aside = true,
                Mention::LookAlike(_) => alike = true,
            }
        }
        for id in self.aliased(&spoken) {
            if !named.iter().any(|(other, _)| *other == id) {
                mentioned.push(id.clone());
                named.push((id, BoundBy::Alias));
            }
        }
        match named.as_slice() {
            _ if alike => Err(DeferReason::LookAlike),
            [] if aside => Err(DeferReason::NamedAside),
            [] => match named_end(text) {
                Some(unknown) => Err(DeferReason::UnknownId(unknown)),
                None => Ok(None),
            },
            [(id, _)] if wanted.is_some_and(|wanted| wanted != id) => Err(DeferReason::SeveralIds),
            [one] => Ok(Some(one.clone())),
            _ => Err(DeferReason::SeveralIds),
        }
    }

    /// Live rows with a confirmed alias that the note contains as a whole phrase.
    fn aliased(&self, text: &str) -> Vec<String> {
        let text = phrase(text);
        let rows = self.space.rows(self.request.bucket);
        rows.filter(|row| row.live && has_alias(row, &text)).map(|row| row.id.clone()).collect()
    }

    /// Whether the note contains an ordinary word that is the id of a live row.
    fn has_plain_word(&self) -> bool {
        let rows = self.space.rows(self.request.bucket);
        rows.filter(|row| row.live && row.id.chars().all(char::is_alphabetic))
            .any(|row| occurs(&self.note.text, &row.id))
    }

    /// Binds `id` if the row was open by then and the writer may end it.
    fn permit(&self, id: &str, by: BoundBy, score: f64, candidates: Vec<Scored>) -> Resolution {
        let candidates = if candidates.is_empty() { offered(id) } else { candidates };
        let Some(row) = self.space.get(self.request.bucket, id) else {
            return Resolution::defer(DeferReason::UnknownId(id.to_owned()), candidates);
        };
        if row.opened_at > self.note.observed_at {
            return Resolution::defer(DeferReason::OpenedLater, candidates);
        }
        if !may_end(self.note, row) {
            return Resolution::defer(DeferReason::Unauthorised, candidates);
        }
        if !row.live {
            return Resolution::NoOp { id: id.to_owned() };
        }
        Resolution::Bind(Binding { id: id.to_owned(), by, score, candidates })
    }
}

/// Whether the sentence with most words of a title is about other work.
pub(crate) fn restates_other_work(text: &str, title: &str) -> bool {
    let words = stems(title);
    let shared = |sentence: &&str| stems(sentence).iter().filter(|stem| words.contains(stem)).count();
    // Of several, the first.
    let most = sentences(text).into_iter().rev().max_by_key(shared);
    most.is_some_and(|sentence| is_other_work(sentence, title))
}

/// Words in lower case, so that whole phrases can be found.
fn phrase(text: &str) -> String {
    format!(" {} ", tokens(&folded(text)).join(" "))
}

/// How a text states no end, apart from whole titles of these rows (id and title): what a title denies is not denied by
/// the text.
pub(crate) fn states_no_end<'a>(
    text: &str,
    rows: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<Mood> {
    let mood = states_an_end(text)?;
    let lower = text.to_ascii_lowercase();
    let mut titled: Vec<(&str, &str)> = rows
        .into_iter()
        .filter(|(_, title)| {
            title.split_whitespace().count() >= TITLE && lower.contains(&title.to_ascii_lowercase())
        })
        .filter(|(_, title)| has_phrase(text, title))
        .collect();
    titled.sort_by_key(|(_, title)| std::cmp::Reverse(title.len()));
    let mut named = text.to_owned();
    for (id, title) in titled {
        named = with_id(&named, id, title).unwrap_or(named);
    }
    // Without its verb of ending a text states nothing that can be denied.
    if has_verb_of_ending(&named) { states_an_end(&named) } else { Some(mood) }
}

/// The text with a row's id in place of its title, quoted or not; `None` if the title does not appear literally.
fn with_id(text: &str, id: &str, title: &str) -> Option<String> {
    let text = text.replace(&format!("\"{title}\""), title);
    let title = title.to_ascii_lowercase();
    let (mut named, mut end) = (String::new(), 0);
    for (at, found) in text.to_ascii_lowercase().match_indices(&title) {
        named.push_str(text.get(end..at)?);
        named.push_str(id);
        end = at + found.len();
    }
    (end > 0).then(|| named + text.get(end..).unwrap_or_default())
}

/// Whether a text contains a name as a whole phrase, in any case.
pub(crate) fn has_phrase(text: &str, name: &str) -> bool {
    phrase(text).contains(&phrase(name))
}

/// Whether a phrase contains one of the row's aliases that cannot be an ordinary word.
fn has_alias(row: &Row, text: &str) -> bool {
    telling(row).any(|alias| text.contains(&phrase(alias)))
}

/// Aliases that cannot be an ordinary word.
fn telling(row: &Row) -> impl Iterator<Item = &String> {
    row.aliases.iter().filter(|alias| alias.contains(|c: char| c.is_whitespace() || c == '_' || c == '-'))
}

/// Whether the writer of `note` may end `row`: not a tool or untrusted text; the row's creator or owner, or one with
/// authority over rows of that trust.
fn may_end(note: &Note, row: &Row) -> bool {
    let actor = &note.actor;
    if note.source == NoteSource::ToolResult || actor.trust == Trust::Untrusted {
        return false;
    }
    let own = actor.agent == row.creator || row.owner.as_ref() == Some(&actor.agent);
    own || actor.trust >= Trust::Authority.max(row.trust)
}

/// Whether a text names an id, even if it is an ordinary word, and not in passing.
pub(crate) fn names(text: &str, id: &str) -> bool {
    mentions(text, [id], Some(id)).contains(&Mention::Named(id))
}

/// Which of `ids` a text names, as [`resolve`] reads it: whole tokens, not in passing.
pub(crate) fn named_in<'a>(text: &str, ids: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let named = mentions(text, ids, None).into_iter().filter_map(|mention| match mention {
        Mention::Named(id) => Some(id),
        Mention::Aside(_) | Mention::LookAlike(_) => None,
    });
    named.collect()
}
