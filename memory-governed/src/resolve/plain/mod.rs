//! Whether a note that names a row states its end plainly: in a known form, with nothing around it that may change the
//! meaning.
//!
//! Words that deny, doubt or promise cannot be listed completely. So this works the other way round: each part of the
//! note must have a form that is known to leave the statement unchanged. What is not understood defers.

mod phrases;
pub(super) mod tokens;
pub(super) mod words;

use super::phrases::QUESTION_STARTS;
use super::resolution::Place;
use super::speech::{is_slug_like, without_quotes};
use crate::bucket::Operation;
use phrases::{is_means, is_watch};
use tokens::{
    Token, change, has_done, is, is_calm_token, is_word, is_word_of, name_words, named, past_mark, sentences,
    skip, take, without_statements, word,
};
use words::{
    ADVERBS, ARTICLES, BE, CAUSES, CHANGES, CHECKED, CHECKS, CONFIRMS, DETERMINERS, ENDED, ENDING, ENDS_NOW,
    EVERYONE, FAULTS, FINISHED, GREETINGS, HAVE, INVALIDATES, IT, KINDS, LABELS, LEADS, MEANS, MOVES,
    NOT_YET, PEOPLE, PREPOSITIONS, PROVE, PROVES, REASONS, REQUESTED, ROWS, SOUND, THANKS, WORKED,
};

/// Longest sentence that is read, in tokens: a bound on the time that a note can take.
const MAX_TOKENS: usize = 120;
/// Most words of a noun phrase, of a subject, of an object, and of an object without an article.
const PHRASE: usize = 12;
const SUBJECT: usize = 6;
const OBJECT: usize = 6;
const BARE_OBJECT: usize = 2;

/// Why a note states no end plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    /// The sentence that names the row is a question.
    Asks,
    /// The text there may change the meaning.
    At(Place),
}

/// What a sentence says about the row it names.
enum Said {
    /// It has ended.
    End,
    /// Nothing yet; a later sentence continues about it.
    Topic,
    Unclear(Place),
}

/// Whether the words of a note, without quotations, plainly state that the row with these names has ended. `successor`
/// may be named as its replacement.
pub(super) fn states_plainly(
    spoken: &str,
    names: &[&str],
    successor: Option<&str>,
    operation: Operation,
) -> Result<(), Unclear> {
    let names: Vec<Vec<String>> = names.iter().map(|name| name_words(name)).collect();
    let (mut has_ended, mut is_topic, mut has_change) = (false, false, false);
    for sentence in sentences(&without_statements(spoken, &names)) {
        let mut tokens = named(sentence.tokens, &names, successor);
        let is_named = tokens.contains(&Token::Name);
        if operation == Operation::Resolve {
            unread(&mut tokens, |token| is_word(token, INVALIDATES));
        } else if is_named || is_topic {
            // Work that was done was carried out, not withdrawn.
            let said = tokens.iter().position(|token| is_word(token, INVALIDATES)).unwrap_or(tokens.len());
            unread(tokens.get_mut(..said).unwrap_or_default(), |token| {
                [ENDED, ENDING, ENDS_NOW, "closing"].iter().any(|list| is_word(token, list))
            });
            // "It is lifted this week" may be for that week only.
            if !tokens.iter().any(|token| is_word(token, "was were been")) {
                unread(&mut tokens, |token| is_word(token, "this today"));
            }
        }
        if tokens.len() > MAX_TOKENS || (sentence.asks && !is_named) {
            return Err(Unclear::At(Place::Beside));
        }
        if is_named {
            if sentence.asks || is(word(&tokens), QUESTION_STARTS.iter().copied()) {
                return Err(Unclear::Asks);
            }
            match statement(&tokens) {
                Said::End => has_ended = true,
                Said::Topic => {
                    is_topic = true;
                    has_change = tokens.iter().any(|token| is_word(token, CHANGES));
                }
                Said::Unclear(place) => return Err(Unclear::At(place)),
            }
        } else if is_topic && has_change && tokens.iter().any(|token| is_word(token, "closed")) {
            // "ID: reviewed the PR. Closed it."
            return Err(Unclear::At(Place::Beside));
        } else if is_topic && ends_it(&tokens) {
            has_ended = true;
        } else if is_aside(&tokens) {
            // By now, "it" may be something else.
            is_topic = false;
        } else {
            return Err(Unclear::At(Place::Beside));
        }
    }
    if has_ended { Ok(()) } else { Err(Unclear::At(Place::Before)) }
}

/// Marks the matching tokens as not understood.
fn unread(tokens: &mut [Token], fits: impl Fn(&Token) -> bool) {
    tokens.iter_mut().filter(|token| fits(token)).for_each(|token| *token = Token::Odd);
}

/// Whether the note is just the bucket's own verb and the name: "resolve ID", "close the issue ID".
pub(super) fn commands(spoken: &str, names: &[&str], operation: Operation) -> bool {
    let names: Vec<Vec<String>> = names.iter().map(|name| name_words(name)).collect();
    let verbs = if operation == Operation::Resolve { "resolve close" } else { "invalidate" };
    let mut sentences = sentences(spoken).into_iter();
    let (Some(only), None) = (sentences.next(), sentences.next()) else { return false };
    let tokens = named(only.tokens, &names, None);
    !only.asks && take(&tokens, verbs).and_then(subject).is_some_and(<[Token]>::is_empty)
}

/// For a note that names no row: whether no word or quotation changes the meaning of the parts, between two marks, that
/// contain its verbs of ending.
pub(super) fn is_calm_where_it_ends(spoken: &str) -> bool {
    let ends = |token: &Token| [ENDED, ENDING, ENDS_NOW].iter().any(|list| is_word(token, list));
    let is_calm = |piece: &[Token]| !piece.iter().any(ends) || piece.iter().all(is_calm_token);
    let is_mark = |token: &Token| !matches!(token, Token::Word(_) | Token::Quotation);
    sentences(spoken).iter().all(|sentence| sentence.tokens.split(is_mark).all(is_calm))
}

/// Whether `ID: BODY` states plainly that a row has ended.
pub(crate) fn ends_plainly(body: &str, successor: Option<&str>, operation: Operation) -> bool {
    const ID: &str = "id_0";
    states_plainly(&format!("{ID}: {}", without_quotes(body)), &[ID], successor, operation).is_ok()
}

/// Whether no word or quotation in a text changes its meaning.
pub(crate) fn is_unturned(spoken: &str) -> bool {
    let words = |token: &Token| !matches!(token, Token::Word(_) | Token::Quotation) || is_calm_token(token);
    sentences(spoken).iter().all(|sentence| sentence.tokens.iter().all(words))
}

/// Whether each sentence of a text is known to leave what follows unchanged: a report of work, a greeting, a statement
/// that a row has ended.
pub(crate) fn is_understood(text: &str) -> bool {
    sentences(text).into_iter().all(|sentence| {
        let start = sentence.tokens.iter().position(|token| *token != Token::Dash).unwrap_or_default();
        let tokens = sentence.tokens.get(start..).unwrap_or_default();
        let said = |word: &str| {
            let tokens = named(tokens.to_vec(), &[vec![word.to_owned()]], None);
            matches!(statement(&tokens), Said::End)
        };
        let is_statement = || {
            let ids = tokens.iter().filter_map(|token| match token {
                Token::Word(word) if is_slug_like(word) => Some(word),
                _ => None,
            });
            ids.take(SUBJECT).any(|id| said(id))
        };
        tokens.len() <= MAX_TOKENS
            && !sentence.asks
            && (is_aside(tokens) || goes_on(tokens) || is_statement())
    })
}

/// "Still at it", "the build failed again".
fn goes_on(tokens: &[Token]) -> bool {
    if let Some(rest) = take(tokens, "still") {
        return take(skip(rest, "working busy"), "at on").is_some_and(|rest| skip(rest, IT).is_empty());
    }
    let Some(rest) = take(tokens, ARTICLES) else { return false };
    let verb =
        rest.iter().take(SUBJECT).position(|token| is_word(token, "failed fails failing broke crashed"));
    let Some((noun, rest)) = verb.map(|at| rest.split_at(at)) else { return false };
    !noun.is_empty() && is_calm(noun) && rest.get(1..).is_some_and(is_quiet)
}

/// What a sentence says about the row it names.
fn statement(tokens: &[Token]) -> Said {
    let mut rest = tokens;
    loop {
        if let Some(said) = core(rest) {
            return said;
        }
        match lead(rest) {
            Some(next) => rest = next,
            None => break,
        }
    }
    // What was done before it: "the primary is up again, ID is resolved".
    for (at, token) in rest.iter().enumerate() {
        let breaks = matches!(token, Token::Comma | Token::Dash) || is_word(token, "and so");
        let (Some(before), Some(after)) = (rest.get(..at), rest.get(at + 1..)) else { break };
        if breaks
            && is_harmless(before)
            && let Some(said) = core(skip(after, LEADS))
        {
            return said;
        }
    }
    Said::Unclear(Place::Before)
}

/// The statement itself: "ID is resolved", "we have resolved ID", "ID: what was done".
fn core(tokens: &[Token]) -> Option<Said> {
    let ends = |rest, past| Some(if tail(rest, past) { Said::End } else { Said::Unclear(Place::After) });
    if let Some(rest) = subject(tokens) {
        if let Some((rest, past)) = state(rest) {
            return ends(rest, past);
        }
        let is_topic = matches!(rest, [Token::Colon | Token::Dash, ..]);
        let after = if is_topic { rest.get(1..)? } else { rest };
        if let Some(rest) = take(skip(after, ADVERBS), ENDED) {
            return ends(rest, true);
        }
        return Some(match is_topic && is_aside(after) {
            true => Said::Topic,
            false => Said::Unclear(Place::After),
        });
    }
    if let Some((rest, past)) = act(tokens)
        && let Some(rest) = subject(rest)
    {
        return ends(rest, past);
    }
    let checked = take(skip(skip(skip(tokens, PEOPLE), HAVE), ADVERBS), CHECKED).and_then(subject)?;
    Some(match checked {
        [] => Said::Topic,
        [Token::Comma | Token::Dash, rest @ ..] if ends_it(rest) => Said::End,
        [Token::Word(and), rest @ ..] if and == "and" && ends_it(rest) => Said::End,
        _ => Said::Unclear(Place::After),
    })
}

/// Skips words before a statement that do not change it.
fn lead(tokens: &[Token]) -> Option<&[Token]> {
    let past = |rest| Some(past_mark(rest));
    match tokens {
        [Token::Dash, rest @ ..] => return Some(rest),
        [Token::Open, Token::Word(x), Token::Close, rest @ ..] if x == "x" => return Some(rest),
        _ => {}
    }
    let label = skip(tokens, LABELS);
    if label.len() < tokens.len()
        && let [Token::Colon, rest @ ..] = label
    {
        return Some(rest);
    }
    if let Some(rest) = take(tokens, "as").and_then(|rest| take(rest, "of")) {
        return change(rest).or_else(|| take(rest, ADVERBS)).and_then(past);
    }
    if let Some(rest) = take(tokens, "thanks").and_then(|rest| take(rest, "to")) {
        let end = rest.iter().position(|token| *token == Token::Comma)?;
        return rest.get(..end).filter(|phrase| is_phrase(phrase)).and(rest.get(end + 1..));
    }
    if let Some(rest) = take(tokens, GREETINGS) {
        return past(skip(rest, EVERYONE));
    }
    if let Some(rest) = take(tokens, LEADS) {
        return past(rest);
    }
    // "I confirm that", "happy to report that", "confirmed:".
    let rest = match take(tokens, "i we") {
        Some(rest) => take(skip(skip(rest, "have can"), ADVERBS), CONFIRMS)?,
        None => match take(skip(tokens, "i'm we're"), "happy glad pleased") {
            Some(rest) => take(rest, "to").and_then(|rest| take(rest, CONFIRMS))?,
            None => take(tokens, "confirmed verified")?,
        },
    };
    take(rest, "that").or_else(|| past(rest))
}

/// Skips the name of the row: "the issue ID", "the ID issue".
fn subject(tokens: &[Token]) -> Option<&[Token]> {
    let [Token::Name, rest @ ..] = skip(skip(tokens, ARTICLES), KINDS) else { return None };
    Some(skip(rest, KINDS))
}

/// Skips the words that say that it has ended; also returns whether they are in the past tense.
fn state(tokens: &[Token]) -> Option<(&[Token], bool)> {
    let rest = skip(tokens, ADVERBS);
    let (rest, past) = match word(rest) {
        "is" | "are" => (rest.get(1..)?, false),
        "was" | "were" | "got" => (rest.get(1..)?, true),
        "has" | "have" => (take(skip(rest.get(1..)?, ADVERBS), "been")?, true),
        _ => return None,
    };
    Some((take(skip(rest, ADVERBS), ENDED)?, past))
}

/// Skips the words that say that somebody ended what follows; also returns whether they are in the past tense.
fn act(tokens: &[Token]) -> Option<(&[Token], bool)> {
    // "Fixed ID", "tested and fixed ID", "issue resolved: ID", "closes ID", "closing ID".
    let bare = skip(skip(tokens, KINDS), ADVERBS);
    let verb = match bare {
        [Token::Word(first), Token::Word(and), rest @ ..]
            if and == "and" && is(first, WORKED.split_whitespace()) =>
        {
            rest
        }
        _ => bare,
    };
    if let Some(rest) =
        take(verb, ENDING).or_else(|| take(verb, "done").filter(|rest| past_mark(rest).len() < rest.len()))
    {
        return Some((past_mark(rest), true));
    }
    if let Some(rest) = take(tokens, ENDS_NOW).or_else(|| take(tokens, "closing")) {
        return Some((rest, false));
    }
    // "This fixes ID", "PR 12 closes ID".
    let thing = take(tokens, "it this").filter(|rest| !is(word(rest), CHANGES.split_whitespace()));
    if let Some(rest) = change(tokens).or(thing)
        && let Some(rest) = take(skip(skip(rest, "has"), ADVERBS), ENDING).or_else(|| take(rest, ENDS_NOW))
    {
        return Some((rest, true));
    }
    // "I am done with ID", "we are closing ID".
    let am = take(tokens, "i'm we're").or_else(|| take(take(tokens, "i we")?, "am are"));
    if let Some(rest) = am.map(|rest| skip(rest, ADVERBS)) {
        let done = take(rest, "done finished").and_then(|rest| take(rest, "with"));
        return done.or_else(|| take(rest, "closing")).map(|rest| (rest, false));
    }
    // "We have resolved ID", "the new logic fixed ID".
    let people = skip(tokens, PEOPLE);
    let who = if people.len() < tokens.len() || is(word(tokens), HAVE.split_whitespace()) {
        people
    } else {
        let rest = take(tokens, ARTICLES)?;
        let verb =
            rest.iter().take(SUBJECT).position(|token| is_word(token, ENDING) || is_word(token, HAVE))?;
        let (noun, rest) = (rest.get(..verb)?, rest.get(verb..)?);
        let is_noun = |token: &Token| {
            !is_word(token, NOT_YET) && matches!(token, Token::Word(word) if !word.ends_with("ly"))
        };
        if noun.is_empty() || !is_calm(noun) || !noun.iter().all(is_noun) {
            return None;
        }
        rest
    };
    take(skip(skip(who, HAVE), ADVERBS), ENDING).map(|rest| (rest, true))
}

/// Whether a clause without the name says that the named row has ended: "it is resolved", "fixed now".
fn goes_on_about_it(tokens: &[Token]) -> bool {
    let rest = skip(tokens, LEADS);
    let about = skip(rest, IT);
    if let Some((rest, past)) = state(about) {
        return tail(rest, past);
    }
    if about.len() == rest.len()
        && let Some(rest) = take(skip(rest, ADVERBS), ENDED)
        && tail(rest, true)
    {
        return true;
    }
    let who = skip(skip(skip(rest, PEOPLE), HAVE), ADVERBS);
    take(who, ENDING).and_then(|rest| take(rest, "it this that")).is_some_and(|rest| tail(rest, true))
}

/// Whether a clause says that the thing checked or discussed has ended, rather than the checking: "it is resolved",
/// "fixed now", but not "done" or "that is completed".
fn ends_it(tokens: &[Token]) -> bool {
    !tokens.iter().any(|token| is_word(token, "done complete completed finished this that which"))
        && goes_on_about_it(tokens)
}

/// Whether what follows a statement leaves it unchanged.
fn tail(tokens: &[Token], past: bool) -> bool {
    match tokens {
        [] => true,
        [mark @ (Token::Comma | Token::Dash | Token::Colon), rest @ ..] => {
            let (piece, after) = piece(rest);
            ((*mark == Token::Colon && is_cause(piece)) || adds(piece, past)) && tail(after, past)
        }
        [Token::Open, rest @ ..] => {
            let end = rest.iter().position(|token| *token == Token::Close);
            let parts = end.and_then(|end| Some((rest.get(..end)?, rest.get(end + 1..)?)));
            parts.is_some_and(|(inner, rest)| adds(inner, past) && tail(rest, past))
        }
        [Token::Word(word), rest @ ..] => tail_of(word, rest, past),
        _ => false,
    }
}

fn tail_of(word: &str, rest: &[Token], past: bool) -> bool {
    let is = |list: &str| is(word, list.split_whitespace());
    let then = |rest: Option<&[Token]>| rest.is_some_and(|rest| tail(rest, past));
    if is(ADVERBS) {
        return tail(rest, past);
    }
    match word {
        "and" => {
            let (piece, after) = piece(rest);
            adds(piece, past) && tail(after, past)
        }
        "since" if then(take(rest, ADVERBS)) => true,
        "this" => then(take(rest, "morning afternoon week month")),
        "for" => then(take(rest, "good")),
        "in" | "on" if then(change(rest)) => true,
        "as" if then(take(rest, "well")) => true,
        "as" if then(take(rest, "of").and_then(|of| change(of).or_else(|| take(of, ADVERBS)))) => true,
        "thanks" | "due" => take(rest, "to").is_some_and(|rest| after_phrase(rest, past)),
        "after" => past && after_phrase(rest, past),
        _ if is(MEANS) => is_means(word, piece(rest).0) && after_phrase(rest, past),
        "since" if change(rest).is_some() => then(change(rest)),
        "as" if take(rest, REQUESTED).is_some() => then(take(rest, REQUESTED)),
        _ if is(REASONS) => {
            let (reason, after) = piece(rest);
            (is_harmless(reason) || (word == "because" && is_cause(reason))) && tail(after, true)
        }
        _ => false,
    }
}

/// Whether a noun phrase and then a tail follow.
fn after_phrase(tokens: &[Token], past: bool) -> bool {
    let (phrase, rest) = piece(tokens);
    is_phrase(phrase) && tail(rest, past)
}

/// The words up to the next mark, and the rest.
fn piece(tokens: &[Token]) -> (&[Token], &[Token]) {
    let is_mark = |token: &Token| !matches!(token, Token::Word(_) | Token::Name);
    tokens.split_at(tokens.iter().position(is_mark).unwrap_or(tokens.len()))
}

/// Whether this is a cause or a means: "the new retry logic", "restarting it", "PR 12", "the new parser in build 42".
/// An unnamed change ("the upcoming release") may be in the future.
fn is_phrase(phrase: &[Token]) -> bool {
    if change(phrase).is_some_and(is_quiet) {
        return true;
    }
    let end = phrase.iter().position(|token| is_word(token, "in on")).unwrap_or(phrase.len());
    let (noun, rest) = phrase.split_at(end);
    let first = word(noun);
    (is(first, DETERMINERS.split_whitespace()) || (first.len() > 4 && first.ends_with("ing")))
        && noun.len() <= PHRASE
        && is_calm(noun)
        && !noun.iter().any(|token| is_word(token, CHANGES))
        && is_quiet(rest)
}

/// Whether these are a cause: "the timeout was too short", "the worker kept a stale lease".
fn is_cause(cause: &[Token]) -> bool {
    let verb = |token: &Token| is_word(token, BE) || is_word(token, PROVES) || has_done(token);
    cause.iter().skip(1).any(verb) && is_calm(cause)
}

/// Whether the text between two marks leaves the preceding statement unchanged.
fn adds(piece: &[Token], past: bool) -> bool {
    let piece = take(piece, "and").unwrap_or(piece);
    let is_tail = !piece.is_empty() && word(piece) != "and" && tail(piece, past);
    is_harmless(piece)
        || goes_on_about_it(piece)
        || change(piece).is_some_and(<[Token]>::is_empty)
        || is_watch(piece)
        || is_tail
}

/// Whether a sentence next to a statement leaves it unchanged.
fn is_aside(tokens: &[Token]) -> bool {
    // A heading, and the number of a list.
    let label = skip(tokens, "status of today update updates summary progress standup for");
    if tokens.is_empty() || (label.len() < tokens.len() && matches!(label, [Token::Colon])) {
        return true;
    }
    if let [Token::Word(number)] = tokens
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return true;
    }
    let rest = past_mark(skip(skip(tokens, GREETINGS), LEADS));
    let rest = if rest.len() < tokens.len() { past_mark(skip(rest, EVERYONE)) } else { rest };
    if rest.is_empty() {
        return true;
    }
    let (piece, rest) = piece(rest);
    let is_known = is_harmless(piece)
        || is_watch(piece)
        || change(piece).is_some_and(<[Token]>::is_empty)
        || (is(word(piece), CAUSES.split_whitespace())
            && is_calm(piece)
            && !piece.iter().any(|token| is_word(token, "unknown unclear to")));
    is_known && tail(rest, true)
}

/// Whether a clause reports something done or working, in a known form: "restarted the primary", "tests pass", "the
/// cache is warm again", "thanks to Ida".
fn is_harmless(clause: &[Token]) -> bool {
    // What was left out has not ended: "the rest was moved".
    let is_left = is_word_of(skip(clause, ARTICLES), "rest remainder others remaining");
    if clause.is_empty() || is_left || !is_calm(clause) {
        return false;
    }
    if let Some(rest) = take(clause, THANKS) {
        let whom = skip(skip(rest, "to"), EVERYONE);
        return whom.len() <= BARE_OBJECT && !whom.iter().any(|token| is_word(token, PREPOSITIONS));
    }
    if take(clause, "see").and_then(change).is_some_and(<[Token]>::is_empty) {
        return true;
    }
    let doer = skip(skip(skip(skip(clause, LEADS), PEOPLE), HAVE), ADVERBS);
    // "Swapped the tickets" is about the tickets.
    let is_about_rows = is_word_of(doer, "changed swapped switched raised introduced")
        && doer.iter().any(|token| is_word(token, ROWS));
    if !is_about_rows && take(doer, WORKED).is_some_and(is_object) {
        return true;
    }
    clause.iter().enumerate().skip(1).take(SUBJECT).any(|(at, token)| {
        let rest = clause.get(at + 1..).unwrap_or_default();
        let subject = clause.get(..at).unwrap_or_default();
        // "To be verified" is not verified.
        if subject.iter().any(|token| is_word(token, "to be get")) {
            return false;
        }
        // "The outage is live" is not good news.
        let is_fault = subject.iter().any(|token| [ROWS, FAULTS].iter().any(|list| is_word(token, list)));
        let is_move = |rest: &[Token]| is_fault && is_word_of(rest, MOVES);
        // "The tests are running."
        let is_under_way = |rest: &[Token]| {
            is_word_of(rest, "running run")
                && subject.iter().any(|token| [CHANGES, CHECKS].iter().any(|list| is_word(token, list)))
        };
        let is_plural = matches!(clause.get(at - 1), Some(Token::Word(word)) if word.ends_with('s'));
        match token {
            _ if is_word(token, BE) => {
                let rest = skip(skip(rest, "been all"), ADVERBS);
                let is_blamed = take(rest, "to").and_then(|rest| take(rest, "blame")).is_some_and(is_quiet);
                let is_so = || {
                    let lists = [SOUND, FINISHED, WORKED];
                    let lists = lists.get(usize::from(is_fault)..).unwrap_or_default();
                    lists.iter().any(|list| take(rest, list).is_some_and(is_quiet))
                };
                is_blamed || (!is_move(rest) && !is_under_way(rest) && is_so())
            }
            _ if is_word(token, PROVE) => {
                is_plural && !is_under_way(clause.get(at..).unwrap_or_default()) && is_quiet(rest)
            }
            // "The errors increased", "latency moved": what happened to it, not what was done.
            _ if is_word(token, MOVES) && (is_fault || rest.is_empty()) => false,
            _ if is_word(token, WORKED) => is_object(rest),
            _ => is_word(token, PROVES) && is_quiet(rest),
        }
    })
}

/// Whether these may follow a word of work: "the primary", "retries", "it in build 42".
fn is_object(tokens: &[Token]) -> bool {
    if is_quiet(tokens) {
        return true;
    }
    let end = tokens.iter().position(|token| is_word(token, PREPOSITIONS)).unwrap_or(tokens.len());
    let (noun, rest) = tokens.split_at(end);
    let noun = skip(noun, ADVERBS);
    let most = if is(word(noun), DETERMINERS.split_whitespace()) { OBJECT } else { BARE_OBJECT };
    let about =
        |token: &Token| is_word(token, BE) || matches!(token, Token::Word(word) if word.contains('%'));
    noun.len() <= most && !noun.iter().any(about) && is_quiet(rest)
}

/// As [`is_quiet`], of text.
pub(super) fn is_quiet_text(text: &str) -> bool {
    matches!(sentences(text).as_slice(), [one] if is_quiet(&one.tokens))
}

/// Whether only a time, a change or a place follows: "now", "again in build 42", "to production".
fn is_quiet(tokens: &[Token]) -> bool {
    let rest = skip(skip(tokens, "it that"), ADVERBS);
    let rest = skip(rest, "again");
    match take(rest, "in on to into since with") {
        Some(place) => change(place).is_some_and(is_quiet),
        None => match take(rest, "this") {
            Some(time) => take(time, "morning afternoon week month").is_some_and(is_quiet),
            None => skip(rest, ADVERBS).is_empty() || change(rest).is_some_and(is_quiet),
        },
    }
}

/// Whether no word may change the meaning, and everything is recognized as words.
fn is_calm(tokens: &[Token]) -> bool {
    let again = |at: usize| {
        let beside = |at: Option<usize>| {
            // "The belt stopped again."
            at.and_then(|at| tokens.get(at))
                .filter(|token| !is_word(token, "stopped"))
                .is_some_and(|token| [PROVE, PROVES, SOUND].iter().any(|list| is_word(token, list)))
        };
        beside(at.checked_sub(1)) || beside(Some(at + 1))
    };
    tokens
        .iter()
        .enumerate()
        .all(|(at, token)| is_calm_token(token) && (!is_word(token, "again back") || again(at)))
}
