//! The sentences of a note as tokens, for `plain`.

use unicode_normalization::UnicodeNormalization as _;

use super::super::phrases::{
    AFTER_NEGATES, BARE_DENIALS, BEFORE_NEGATES, CONDITIONS, DENIALS, FUTURE, HEARSAY, HEDGES, TURNS,
};
use super::super::speech::{self, QUOTATION, turned};
use super::words::{ASKS, BRANCHES, CHANGES, DID, LATEST, TURNING};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::resolve) enum Token {
    /// In lower case.
    Word(String),
    /// The row is named.
    Name,
    Comma,
    Colon,
    Dash,
    Open,
    Close,
    /// A quotation stood here.
    Quotation,
    /// Anything else: never understood.
    Odd,
}

#[derive(Default)]
pub(in crate::resolve) struct Sentence {
    pub(in crate::resolve) tokens: Vec<Token>,
    pub(in crate::resolve) asks: bool,
}

/// Marks that end a sentence, in any script.
const ENDS: &str = "!;\n。।։";
/// Marks without meaning: emphasis and good news.
const BLANK: &str = "*`✅✔☑🎉👍\u{fe0f}";
/// What no longer happens to something that works.
const FAILS: [&str; 14] = [
    "fail", "fails", "happen", "happens", "occur", "occurs", "appear", "appears", "crash", "crashes", "hang",
    "hangs", "leak", "leaks",
];
/// Prefixes of lines that are separate statements.
const STATEMENTS: [&str; 14] = [
    "plan",
    "constraint",
    "issue",
    "problem",
    "blocker",
    "bug",
    "decision",
    "decided",
    "result",
    "task",
    "learning",
    "lesson",
    "learned",
    "tasks",
];

/// The sentences of a text.
pub(in crate::resolve) fn sentences(text: &str) -> Vec<Sentence> {
    let text: String = without_links(text).nfkc().flat_map(char::to_lowercase).collect();
    let letters: Vec<char> = text.chars().map(|c| if c == '’' { '\'' } else { c }).collect();
    let (mut found, mut sentence, mut word) = (Vec::new(), Sentence::default(), String::new());
    for (at, c) in letters.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at)).copied().unwrap_or(' ');
        let next = letters.get(at + 1).copied().unwrap_or(' ');
        let joins = |both: fn(char) -> bool| both(before) && both(next);
        let is_part = is_letter(c)
            || "_%@".contains(c)
            || (c == '#' && is_letter(next))
            || (".-'/".contains(c) && joins(is_letter))
            || (c == ':' && joins(|c| c.is_ascii_digit()));
        if is_part {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            sentence.tokens.push(Token::Word(std::mem::take(&mut word)));
        }
        let is_end = ENDS.contains(c) || ASKS.contains(c) || (c == '.' && next != '.' && before != '.');
        sentence.asks |= ASKS.contains(c);
        match c {
            _ if is_end => found.push(std::mem::take(&mut sentence)),
            _ if c.is_whitespace() || BLANK.contains(c) => {}
            '\'' if before == 's' => {}
            '&' => sentence.tokens.push(Token::Word("and".to_owned())),
            ',' => sentence.tokens.push(Token::Comma),
            ':' => sentence.tokens.push(Token::Colon),
            '-' | '–' | '—' => sentence.tokens.push(Token::Dash),
            '(' | '[' => sentence.tokens.push(Token::Open),
            ')' | ']' => sentence.tokens.push(Token::Close),
            QUOTATION => sentence.tokens.push(Token::Quotation),
            _ => sentence.tokens.push(Token::Odd),
        }
    }
    if !word.is_empty() {
        sentence.tokens.push(Token::Word(word));
    }
    found.push(sentence);
    found.retain(|sentence| sentence.asks || !sentence.tokens.is_empty());
    found
}

/// The text with `#1` for each link: a reference, whose marks mean nothing.
fn without_links(text: &str) -> String {
    let link = |piece: &str| piece.starts_with("https://") || piece.starts_with("http://");
    let ends = |c: char| c.is_whitespace() || "(),;<>".contains(c);
    let pieces = text.split_inclusive(ends).map(|piece| match piece.strip_suffix(ends) {
        _ if !link(piece) => piece.to_owned(),
        Some(bare) => format!("#1{}", piece.get(bare.len()..).unwrap_or_default()),
        None => "#1".to_owned(),
    });
    pieces.collect()
}

/// A letter of the Latin script, or a digit.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || (('\u{c0}'..='\u{24f}').contains(&c) && c.is_alphabetic())
}

/// The words of a row's name.
pub(in crate::resolve) fn name_words(name: &str) -> Vec<String> {
    let words = sentences(name).into_iter().flat_map(|sentence| sentence.tokens);
    words.filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None }).collect()
}

/// The tokens with the names of the row found in them, longest first, and without "by SUCCESSOR".
pub(in crate::resolve) fn named(
    tokens: Vec<Token>,
    names: &[Vec<String>],
    successor: Option<&str>,
) -> Vec<Token> {
    let mut found = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        // "Uploads no longer fail": they recovered.
        if let Some([Token::Word(no), Token::Word(longer), Token::Word(fail)]) = tokens.get(at..at + 3)
            && (no.as_str(), longer.as_str()) == ("no", "longer")
            && FAILS.contains(&fail.as_str())
        {
            found.push(Token::Word("recovered".to_owned()));
            at += 3;
            continue;
        }
        let is_here = |name: &&Vec<String>| {
            let here = tokens.get(at..).unwrap_or_default();
            let is_it = |(word, token): (&String, &Token)| matches!(token, Token::Word(said) if said.trim_start_matches('#') == word);
            !name.is_empty() && name.len() <= here.len() && name.iter().zip(here).all(is_it)
        };
        match names.iter().filter(is_here).map(Vec::len).max() {
            Some(length) => {
                found.push(Token::Name);
                at += length;
            }
            None => {
                found.push(token.clone());
                at += 1;
            }
        }
    }
    // "[ID] fixed".
    while let Some(at) =
        found.windows(3).position(|three| matches!(three, [Token::Open, Token::Name, Token::Close]))
    {
        found.splice(at..at + 3, [Token::Name]);
    }
    let by = |token: &Token| matches!(token, Token::Word(word) if word == "by");
    let is_it =
        |token: &Token| matches!(token, Token::Word(word) if Some(word.trim_start_matches('#')) == successor);
    if let Some(at) = found.iter().position(is_it) {
        let kind = |token: &Token| matches!(token, Token::Word(word) if word == "decision" || word == "constraint" || word == "the");
        let from = found.iter().take(at).rposition(|token| !kind(token));
        if let Some(from) = from.filter(|from| found.get(*from).is_some_and(by)) {
            found.drain(from..=at);
        }
    }
    found
}

/// Separate statements that may continue about what was said before: "blocker: it still fails".
const FAULTS: [&str; 4] = ["issue", "problem", "blocker", "bug"];

/// The text without lines that are separate statements ("task import: done") and neither name the row nor speak about
/// it.
pub(in crate::resolve) fn without_statements(text: &str, names: &[Vec<String>]) -> String {
    let is_own = |line: &&str| {
        let Some((head, body)) = line.split_once(':') else { return false };
        let words: Vec<String> = head.split_whitespace().map(str::to_lowercase).collect();
        let is_kind = words.first().is_some_and(|first| STATEMENTS.contains(&first.as_str()));
        let said = speech::tokens(body);
        let refers = said.first().is_some_and(|first| ["it", "that", "this"].contains(&first.as_str()));
        let goes_on = matches!(words.as_slice(), [kind] if FAULTS.contains(&kind.as_str()))
            && (turned(body).is_some() || said.iter().any(|word| word == "still"));
        is_kind
            && words.len() <= 2
            && !refers
            && !goes_on
            && !sentences(line).into_iter().any(|one| named(one.tokens, names, None).contains(&Token::Name))
    };
    text.lines().filter(|line| !is_own(line)).collect::<Vec<_>>().join("\n")
}

/// A version, an issue's number, or a commit.
pub(in crate::resolve) fn is_reference(word: &str) -> bool {
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    let is_hash = word.len() >= 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let version = word.strip_prefix('v').unwrap_or(word);
    let is_version = version.starts_with(|c: char| c.is_ascii_digit())
        && version.contains('.')
        && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    has_digit && (word.starts_with('#') || is_hash || is_version)
}

/// Skips what names a change: "PR 12", "the latest build", "main", "#12", a hash or a version.
pub(in crate::resolve) fn change(tokens: &[Token]) -> Option<&[Token]> {
    let named = skip(tokens, LATEST);
    let noun = take(named, CHANGES);
    let number =
        |token: &Token| matches!(token, Token::Word(word) if word.contains(|c: char| c.is_ascii_digit()));
    match noun {
        Some([token, rest @ ..]) if number(token) => Some(rest),
        Some(rest) if named.len() < tokens.len() => Some(rest),
        _ => take(tokens, BRANCHES).or_else(|| match tokens {
            [Token::Word(word), rest @ ..] if is_reference(word) => Some(rest),
            _ => None,
        }),
    }
}

/// Whether a word says what was done.
pub(in crate::resolve) fn did(word: &str) -> bool {
    is(word, DID.split_whitespace())
        || (word.len() > 4
            && word.ends_with("ed")
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
}

pub(in crate::resolve) fn has_done(token: &Token) -> bool {
    matches!(token, Token::Word(word) if did(word))
}

pub(in crate::resolve) fn is<'a>(word: &str, mut list: impl Iterator<Item = &'a str>) -> bool {
    list.any(|one| one == word)
}

pub(in crate::resolve) fn is_word(token: &Token, list: &str) -> bool {
    matches!(token, Token::Word(word) if is(word, list.split_whitespace()))
}

pub(in crate::resolve) fn is_word_of(tokens: &[Token], list: &str) -> bool {
    take(tokens, list).is_some()
}

/// The first word, if the first token is one.
pub(in crate::resolve) fn word(tokens: &[Token]) -> &str {
    match tokens {
        [Token::Word(word), ..] => word,
        _ => "",
    }
}

/// The tokens after the first, if that is one of these words.
pub(in crate::resolve) fn take<'a>(tokens: &'a [Token], list: &str) -> Option<&'a [Token]> {
    tokens.split_first().filter(|(first, _)| is_word(first, list)).map(|(_, rest)| rest)
}

/// Skips all of these words.
pub(in crate::resolve) fn skip<'a>(tokens: &'a [Token], list: &str) -> &'a [Token] {
    let end = tokens.iter().position(|token| !is_word(token, list)).unwrap_or(tokens.len());
    tokens.get(end..).unwrap_or_default()
}

/// Skips a comma, a dash or a colon.
pub(in crate::resolve) fn past_mark(tokens: &[Token]) -> &[Token] {
    match tokens {
        [Token::Comma | Token::Dash | Token::Colon, rest @ ..] => rest,
        _ => tokens,
    }
}

/// Whether a token cannot change the meaning.
pub(in crate::resolve) fn is_calm_token(token: &Token) -> bool {
    let Token::Word(word) = token else { return *token == Token::Comma };
    let lists =
        [BEFORE_NEGATES, AFTER_NEGATES, CONDITIONS, HEDGES, FUTURE, HEARSAY, TURNS, DENIALS, BARE_DENIALS];
    !is(word, TURNING.split_whitespace())
        && !lists.iter().any(|list| list.contains(&word.as_str()))
        && !word.ends_with("n't")
        && !word.ends_with("'ll")
}
