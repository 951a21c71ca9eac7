//! PostgreSQL's lexer, rule by rule as in `scan.l` of versions 15 to 18, with `standard_conforming_strings` on.
//!
//! Text that two readers could tokenize differently is refused: a string continued after its closing quote, a comment
//! touching an operator, an identifier in `U&"…"`, an invisible character.

use super::characters::hidden;
use super::keywords::POSTGRES;
use super::token::{Kind, Lexed, Role, Token};
use super::too_many_tokens;
use crate::policy::{Dialect, Limits};
use crate::verdict::{Position, Refusal, Stage};

/// Cuts a text.
pub(crate) fn lex<'a>(sql: &'a str, limits: &Limits) -> Lexed<'a> {
    let mut lexer = Lexer {
        sql,
        bytes: sql.as_bytes(),
        at: 0,
        comment_depth: limits.comment_depth,
        over: None,
        fault: None,
    };
    let mut tokens: Vec<Token> = Vec::with_capacity((sql.len() / 4).min(limits.tokens).saturating_add(1));
    if let Some(at) = sql.find('\0') {
        // The engine stops reading here.
        lexer.over = Some(lexer.character(at, '\0'));
    }
    while lexer.over.is_none() && lexer.skip_space() {
        let start = lexer.at;
        let kind = lexer.token();
        // `'a'⏎'b'` is one string to the engine, and two to others; on one line it is an error.
        let continues = lexer.byte(start) == b'\'' && kind == Kind::Text;
        if continues && tokens.last().is_some_and(|last| matches!(last.kind, Kind::Text | Kind::Blob)) {
            lexer.blame(
                "string_continued",
                start,
                "'",
                "a string continued after its closing quote is ambiguous",
                "write one literal, or join two with ||",
            );
        }
        if tokens.len() >= limits.tokens {
            lexer.over = Some(too_many_tokens(sql, start, limits));
            break;
        }
        let text = lexer.bytes.get(start..lexer.at).unwrap_or_default();
        let role = if kind == Kind::Word { POSTGRES.role(text) } else { Role::None };
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        tokens.push(Token { kind, role, start: offset(start), end: offset(lexer.at) });
    }
    Lexed { sql, dialect: Dialect::Postgres, tokens, over: lexer.over, fault: lexer.fault }
}

struct Lexer<'s> {
    sql: &'s str,
    bytes: &'s [u8],
    at: usize,
    comment_depth: usize,
    over: Option<Refusal>,
    fault: Option<Refusal>,
}

impl Lexer<'_> {
    /// The byte at an offset; beyond the end zero, which no text contains.
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn refusal(&self, rule: &'static str, at: usize, construct: &str) -> Refusal {
        let construct: String = construct.chars().take(32).collect();
        Refusal::new(Stage::Gate, rule, Position::of(self.sql, at), construct)
    }

    /// Keeps the first fault.
    fn blame(&mut self, rule: &'static str, at: usize, construct: &str, why: &str, instead: &str) {
        if self.fault.is_none() {
            self.fault = Some(self.refusal(rule, at, construct).because(why).instead(instead));
        }
    }

    fn character(&self, at: usize, character: char) -> Refusal {
        let what = hidden(character).unwrap_or("an odd character");
        self.refusal("character", at, &format!("U+{:04X}", u32::from(character)))
            .because(format!("the text contains {what}"))
            .instead("leave it out; inside a value pass it as an argument")
    }

    /// The construct that begins here is not terminated.
    fn unterminated(&mut self, at: usize, what: &str) -> Kind {
        let first: String = self.sql.get(at..).unwrap_or_default().chars().take(1).collect();
        self.blame(
            "token",
            at,
            &first,
            &format!("{what} does not end"),
            "close every quote, and double a quote inside a literal",
        );
        self.at = self.bytes.len();
        Kind::Illegal
    }

    /// Skips white space and comments; false at the end.
    fn skip_space(&mut self) -> bool {
        loop {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (0, _) if self.at >= self.bytes.len() => return false,
                (b' ' | b'\t' | b'\n' | b'\r' | 0x0c, _) => self.at += 1,
                (0x0b, _) => {
                    // White space since version 16, an error before.
                    let fault = self.character(self.at, '\u{b}');
                    self.fault.get_or_insert(fault);
                    self.at += 1;
                }
                (b'-', b'-') => {
                    while self.at < self.bytes.len() && !matches!(self.byte(self.at), b'\n' | b'\r') {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    if !self.comment() {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// A `/* */` comment, which nests; false if nothing may follow.
    fn comment(&mut self) -> bool {
        let start = self.at;
        let mut depth = 0_usize;
        while self.at < self.bytes.len() {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'/', b'*') => {
                    depth += 1;
                    if depth > self.comment_depth {
                        let over = self
                            .refusal("too_deep", self.at, "/*")
                            .because(format!("comments are nested more than {} deep", self.comment_depth))
                            .instead("leave the comments out");
                        self.over = Some(over);
                        return false;
                    }
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth = depth.saturating_sub(1);
                    self.at += 2;
                    if depth == 0 {
                        return true;
                    }
                }
                _ => self.at += 1,
            }
        }
        self.unterminated(start, "a comment");
        true
    }

    fn token(&mut self) -> Kind {
        let start = self.at;
        let first = self.byte(start);
        let second = self.byte(start + 1);
        match first {
            b'\'' => self.quoted(1, false, Kind::Text),
            b'"' => self.quoted_name(1),
            b'e' | b'E' if second == b'\'' => self.quoted(2, true, Kind::Text),
            b'n' | b'N' if second == b'\'' => self.quoted(2, false, Kind::Text),
            b'b' | b'B' | b'x' | b'X' if second == b'\'' => self.quoted(2, false, Kind::Blob),
            b'u' | b'U' if second == b'&' && self.byte(start + 2) == b'\'' => {
                self.quoted(3, false, Kind::Text)
            }
            b'u' | b'U' if second == b'&' && self.byte(start + 2) == b'"' => {
                self.blame(
                    "unicode_name",
                    start,
                    "U&\"",
                    "a name with escapes cannot be checked",
                    "write the name itself, in double quotes if needed",
                );
                self.quoted_name(3)
            }
            b'$' => self.dollar(),
            b'0'..=b'9' => self.number(),
            b'.' if second.is_ascii_digit() => self.number(),
            b'.' if second == b'.' => self.take(2, Kind::Operator),
            b'(' | b'[' => self.take(1, Kind::Open),
            b')' | b']' => self.take(1, Kind::Close),
            b',' => self.take(1, Kind::Comma),
            b';' => self.take(1, Kind::Semicolon),
            b'.' => self.take(1, Kind::Dot),
            b':' if matches!(second, b':' | b'=') => self.take(2, Kind::Operator),
            b':' => self.take(1, Kind::Operator),
            byte if is_operator(byte) => self.operator(),
            byte if is_name_start(byte) => self.word(),
            _ => {
                let found = self.sql.get(start..).and_then(|rest| rest.chars().next()).unwrap_or('\0');
                if hidden(found).is_some() {
                    let fault = self.character(start, found);
                    self.fault.get_or_insert(fault);
                } else {
                    self.blame("token", start, &found.to_string(), "no token starts like this", "remove it");
                }
                self.take(1, Kind::Illegal)
            }
        }
    }

    fn take(&mut self, bytes: usize, kind: Kind) -> Kind {
        self.at += bytes;
        kind
    }

    /// A literal whose content starts after `prefix` bytes.
    fn quoted(&mut self, prefix: usize, escapes: bool, kind: Kind) -> Kind {
        let start = self.at;
        self.at += prefix;
        while self.at < self.bytes.len() {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'\\', _) if escapes => self.at += 2,
                (b'\'', b'\'') => self.at += 2,
                (b'\'', _) => return self.take(1, kind),
                _ => self.at += 1,
            }
        }
        self.unterminated(start, "a text literal")
    }

    fn quoted_name(&mut self, prefix: usize) -> Kind {
        let start = self.at;
        self.at += prefix;
        while self.at < self.bytes.len() {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'"', b'"') => self.at += 2,
                (b'"', _) => {
                    if self.at == start + prefix {
                        self.blame(
                            "token",
                            start,
                            "\"\"",
                            "a name is empty",
                            "use single quotes for an empty string",
                        );
                    }
                    return self.take(1, Kind::Quoted);
                }
                _ => self.at += 1,
            }
        }
        self.unterminated(start, "a quoted name")
    }

    /// `$1`, or `$tag$…$tag$`.
    fn dollar(&mut self) -> Kind {
        let start = self.at;
        if self.byte(start + 1).is_ascii_digit() {
            self.at += 1;
            while self.byte(self.at).is_ascii_digit() {
                self.at += 1;
            }
            return self.no_junk(start, Kind::Parameter);
        }
        let mut end = start + 1;
        while is_name_start(self.byte(end)) || (end > start + 1 && self.byte(end).is_ascii_digit()) {
            end += 1;
        }
        if self.byte(end) != b'$' {
            self.blame(
                "token",
                start,
                "$",
                "this dollar sign starts neither an argument nor a quoted text",
                "write $1, $2, … for arguments",
            );
            return self.take(1, Kind::Illegal);
        }
        let (from, tag) = (end + 1, self.sql.get(start..=end).unwrap_or_default());
        // The engine looks for the tag at every dollar sign.
        match self.sql.get(from..).and_then(|rest| rest.find(tag)) {
            Some(length) => {
                self.at = from + length + tag.len();
                Kind::Text
            }
            None => self.unterminated(start, "a text in dollar signs"),
        }
    }

    fn number(&mut self) -> Kind {
        let start = self.at;
        let radix: Option<fn(u8) -> bool> = match (self.byte(start), self.byte(start + 1)) {
            (b'0', b'x' | b'X') => Some(|byte| byte.is_ascii_hexdigit()),
            (b'0', b'o' | b'O') => Some(|byte| matches!(byte, b'0'..=b'7')),
            (b'0', b'b' | b'B') => Some(|byte| matches!(byte, b'0' | b'1')),
            _ => None,
        };
        if let Some(is_digit) = radix {
            self.at += 2;
            self.digits(is_digit, true);
            return self.no_junk(start, Kind::Number);
        }
        self.digits(|byte| byte.is_ascii_digit(), false);
        // `1..2` is a range of two numbers.
        if self.byte(self.at) == b'.' && self.byte(self.at + 1) != b'.' {
            self.at += 1;
            self.digits(|byte| byte.is_ascii_digit(), false);
        }
        if matches!(self.byte(self.at), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(self.at + 1), b'+' | b'-'));
            if self.byte(self.at + 1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.digits(|byte| byte.is_ascii_digit(), false);
            }
        }
        self.no_junk(start, Kind::Number)
    }

    /// Digits with single underscores in between (and before the first, if a prefix allows it).
    fn digits(&mut self, is_digit: fn(u8) -> bool, mut underscore: bool) {
        loop {
            if is_digit(self.byte(self.at)) {
                self.at += 1;
            } else if underscore && self.byte(self.at) == b'_' && is_digit(self.byte(self.at + 1)) {
                self.at += 2;
            } else {
                return;
            }
            underscore = true;
        }
    }

    /// A name directly after a number is an error to the engine, and something different to other parsers.
    fn no_junk(&mut self, start: usize, kind: Kind) -> Kind {
        if !is_name_start(self.byte(self.at)) {
            return kind;
        }
        let number = self.sql.get(start..self.at).unwrap_or_default();
        self.blame("token", start, number, "a number runs into letters", "put a space between them");
        while is_name_part(self.byte(self.at)) {
            self.at += 1;
        }
        Kind::Illegal
    }

    fn operator(&mut self) -> Kind {
        let start = self.at;
        let mut end = start;
        while is_operator(self.byte(end)) {
            end += 1;
        }
        let mut run = self.sql.get(start..end).unwrap_or_default();
        if let Some(at) = run.find("--").into_iter().chain(run.find("/*")).min() {
            self.blame(
                "comment_in_operator",
                start + at,
                run,
                "a comment touching an operator is ambiguous",
                "put a space before the comment",
            );
            run = run.get(..at).unwrap_or_default();
        }
        if run.contains('`') {
            self.blame(
                "token",
                start,
                "`",
                "a back quote is not a quote here",
                "use double quotes for names",
            );
        }
        // `a=-1`: a trailing sign belongs to the operator only with characters that no standard operator has.
        let odd =
            |byte: u8| matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%');
        let run = run.as_bytes();
        let mut length = run.len();
        while length > 1
            && run.get(length - 1).is_some_and(|byte| matches!(byte, b'+' | b'-'))
            && !run.iter().take(length - 1).any(|byte| odd(*byte))
        {
            length -= 1;
        }
        if length >= 64 {
            self.blame(
                "token",
                start,
                "operator",
                "this operator is longer than any existing one",
                "use an existing operator",
            );
        }
        self.take(length.max(1), Kind::Operator)
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        while is_name_part(self.byte(self.at)) {
            self.at += 1;
        }
        let sql = self.sql;
        let word = sql.get(start..self.at).unwrap_or_default();
        if !word.is_ascii()
            && let Some((at, found)) = word.char_indices().find(|(_, found)| hidden(*found).is_some())
        {
            let fault = self.character(start + at, found);
            self.fault.get_or_insert(fault);
        }
        Kind::Word
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name_part(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn is_operator(byte: u8) -> bool {
    matches!(
        byte,
        b'~' | b'!'
            | b'@'
            | b'#'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
            | b'+'
            | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'<'
            | b'>'
            | b'='
    )
}

#[cfg(test)]
mod tests {
    use super::lex;
    use crate::gate::token::Kind;
    use crate::policy::Limits;

    fn tokens(sql: &str) -> Vec<(Kind, &str)> {
        let lexed = lex(sql, &Limits::default());
        assert!(lexed.over.is_none(), "{sql}");
        lexed.tokens.iter().map(|token| (token.kind, lexed.text(*token))).collect()
    }

    fn fault(sql: &str) -> Option<&'static str> {
        lex(sql, &Limits::default()).fault.map(|fault| fault.rule)
    }

    #[test]
    fn literals_of_every_kind_are_one_token_each() {
        for literal in [
            "'it''s'",
            "'a\\'",
            "E'it\\'s'",
            "e'\\\\'",
            "B'101'",
            "x'1F'",
            "N'a'",
            "U&'\\0041'",
            "$$a'b$$",
            "$q$ $$ $q $q$",
            "$ü1$a$ü1$",
            "'a\n;b'",
        ] {
            let found = tokens(literal);
            assert!(
                matches!(found.as_slice(), [(Kind::Text | Kind::Blob, text)] if *text == literal),
                "{literal}: {found:?}"
            );
            assert_eq!(fault(literal), None, "{literal}");
        }
    }

    #[test]
    fn names_hold_dollar_signs_and_letters_of_any_script() {
        assert_eq!(tokens("a$b$c"), [(Kind::Word, "a$b$c")]);
        assert_eq!(tokens("straße\"x\"\"y\""), [(Kind::Word, "straße"), (Kind::Quoted, "\"x\"\"y\"")]);
        // Not a literal's prefix, but the end of a name.
        assert_eq!(tokens("nameE'a'"), [(Kind::Word, "nameE"), (Kind::Text, "'a'")]);
    }

    #[test]
    fn comments_nest_and_end_at_either_line_end() {
        assert_eq!(tokens("1/* /* */ ; */2"), [(Kind::Number, "1"), (Kind::Number, "2")]);
        assert_eq!(tokens("--a\r1"), [(Kind::Number, "1")]);
        assert_eq!(tokens("--a\n1"), [(Kind::Number, "1")]);
    }

    #[test]
    fn comments_are_nested_as_deep_as_allowed() {
        let nested = |depth: usize| format!("{}{}", "/*".repeat(depth), "*/".repeat(depth));
        assert!(lex(&nested(16), &Limits::default()).over.is_none());
        assert!(lex(&nested(17), &Limits::default()).over.is_some());
    }

    #[test]
    fn operators_are_as_long_as_the_engine_makes_them() {
        let operators = |sql| -> Vec<&str> {
            tokens(sql)
                .into_iter()
                .filter(|(kind, _)| *kind == Kind::Operator)
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(operators("a=-1"), ["=", "-"]);
        assert_eq!(operators("a@-1"), ["@-"]);
        assert_eq!(operators("a<->b <#> c #>> d"), ["<->", "<#>", "#>>"]);
        assert_eq!(operators("a::b :c ..d"), ["::", ":", ".."]);
        assert_eq!(operators("a*-+1"), ["*", "-", "+"]);
    }

    #[test]
    fn numbers_in_every_spelling_are_one_token_each() {
        for number in ["1", "1_000", ".5", "1.", "1.5e10", "1e-3", "0x1F", "0o17", "0b_11"] {
            assert_eq!(tokens(number), [(Kind::Number, number)]);
            assert_eq!(fault(number), None, "{number}");
        }
        assert_eq!(fault("1e"), Some("token"));
        assert_eq!(fault("0x1G"), Some("token"));
        assert_eq!(fault("12abc"), Some("token"));
    }

    #[test]
    fn what_two_readers_could_cut_differently_is_refused() {
        assert_eq!(fault("E'a'\n'b'"), Some("string_continued"));
        assert_eq!(fault("'a' /* c */ 'b'"), Some("string_continued"));
        assert_eq!(fault("1 </*'*/ 2"), Some("comment_in_operator"));
        assert_eq!(fault("1 +--'\n 2"), Some("comment_in_operator"));
        assert_eq!(fault("U&\"a\""), Some("unicode_name"));
        assert_eq!(fault("a \u{a0} b"), Some("character"));
        assert_eq!(fault("\u{feff}a"), Some("character"));
        assert_eq!(fault("a\u{200b}b"), Some("character"));
        assert_eq!(fault("1\\; 2"), Some("token"));
        assert_eq!(fault("`a`"), Some("token"));
        assert_eq!(fault("'\u{a0}\u{feff}'"), None);
        assert_eq!(fault("\"\u{a0}\" -- \u{feff}"), None);
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for sql in ["'a", "E'a\\'", "\"a", "$$a", "$1$x$; a", "/* /* */"] {
            assert_eq!(fault(sql), Some("token"), "{sql}");
        }
    }
}
