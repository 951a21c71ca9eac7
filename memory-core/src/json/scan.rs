//! The scanner: one forward pass over a text, token by token, checking the grammar.
//!
//! It never recurses and allocates nothing. Since the depth is at most [`MAX_DEPTH`], one bit of a `u128` per level
//! records whether it is an object or an array.

use super::{JsonError, MAX_DEPTH};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    /// The name of a member, quotes included.
    Key,
    /// A string value, quotes included.
    String,
    Number,
    True,
    False,
    Null,
}

/// One token and its position: `text[start..end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) token: Token,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Containers open around this token; a container's start and end have the same depth.
    pub(crate) depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrArrayEnd,
    Key,
    KeyOrObjectEnd,
    CommaOrEnd,
    Nothing,
}

/// Yields the tokens of `text`, and an error at the first byte that breaks the grammar; nothing after an error.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
    depth: usize,
    /// Bit `d` is set if the container opened at depth `d` is an object.
    objects: u128,
    expect: Expect,
    failed: bool,
}

const _: () = assert!(MAX_DEPTH == 128, "Scanner::objects has one bit for each level");

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            position: 0,
            depth: 0,
            objects: 0,
            expect: Expect::Value,
            failed: false,
        }
    }

    /// Given the first event of a value, moves past the whole value and returns its end.
    pub(crate) fn finish_value(&mut self, first: Event) -> Result<usize, JsonError> {
        if !matches!(first.token, Token::ObjectStart | Token::ArrayStart) {
            return Ok(first.end);
        }
        loop {
            match self.next() {
                Some(Ok(event)) if event.depth == first.depth => return Ok(event.end),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(JsonError::UnexpectedEnd { position: self.position }),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.position += 1;
        }
    }

    fn expected(&self, expected: &'static str) -> JsonError {
        if self.position >= self.bytes.len() {
            JsonError::UnexpectedEnd { position: self.bytes.len() }
        } else {
            JsonError::Syntax { position: self.position, expected }
        }
    }

    fn inside_object(&self) -> bool {
        self.depth > 0 && self.objects & (1 << (self.depth - 1)) != 0
    }

    fn after_value(&mut self) {
        self.expect = if self.depth == 0 { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn open(&mut self, object: bool) -> Result<Event, JsonError> {
        if self.depth >= MAX_DEPTH {
            return Err(JsonError::TooDeep { position: self.position, limit: MAX_DEPTH });
        }
        let bit = 1 << self.depth;
        let (token, expect) = if object {
            self.objects |= bit;
            (Token::ObjectStart, Expect::KeyOrObjectEnd)
        } else {
            self.objects &= !bit;
            (Token::ArrayStart, Expect::ValueOrArrayEnd)
        };
        let event = Event { token, start: self.position, end: self.position + 1, depth: self.depth };
        self.depth += 1;
        self.position += 1;
        self.expect = expect;
        Ok(event)
    }

    fn close(&mut self, token: Token) -> Event {
        self.depth = self.depth.saturating_sub(1);
        let event = Event { token, start: self.position, end: self.position + 1, depth: self.depth };
        self.position += 1;
        self.after_value();
        event
    }

    fn step(&mut self) -> Result<Option<Event>, JsonError> {
        loop {
            self.skip_white_space();
            let next = self.peek();
            match (self.expect, next) {
                (Expect::Nothing, None) => return Ok(None),
                (Expect::Nothing, _) => return Err(self.expected("nothing after the value")),
                (Expect::ValueOrArrayEnd, Some(b']')) => return Ok(Some(self.close(Token::ArrayEnd))),
                (Expect::Value | Expect::ValueOrArrayEnd, _) => return self.value(next).map(Some),
                (Expect::KeyOrObjectEnd, Some(b'}')) => return Ok(Some(self.close(Token::ObjectEnd))),
                (Expect::Key | Expect::KeyOrObjectEnd, Some(b'"')) => return self.key().map(Some),
                (Expect::Key, _) => return Err(self.expected("a member name in quotes")),
                (Expect::KeyOrObjectEnd, _) => return Err(self.expected("a member name in quotes or '}'")),
                (Expect::CommaOrEnd, Some(b',')) => {
                    self.position += 1;
                    self.expect = if self.inside_object() { Expect::Key } else { Expect::Value };
                }
                (Expect::CommaOrEnd, Some(b'}')) if self.inside_object() => {
                    return Ok(Some(self.close(Token::ObjectEnd)));
                }
                (Expect::CommaOrEnd, Some(b']')) if !self.inside_object() => {
                    return Ok(Some(self.close(Token::ArrayEnd)));
                }
                (Expect::CommaOrEnd, _) => {
                    let expected = if self.inside_object() { "',' or '}'" } else { "',' or ']'" };
                    return Err(self.expected(expected));
                }
            }
        }
    }

    fn value(&mut self, first: Option<u8>) -> Result<Event, JsonError> {
        let start = self.position;
        let token = match first {
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'"') => {
                self.string()?;
                Token::String
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Token::Number
            }
            Some(b't') => self.literal(b"true", Token::True)?,
            Some(b'f') => self.literal(b"false", Token::False)?,
            Some(b'n') => self.literal(b"null", Token::Null)?,
            _ => return Err(self.expected("a value")),
        };
        self.after_value();
        Ok(Event { token, start, end: self.position, depth: self.depth })
    }

    fn key(&mut self) -> Result<Event, JsonError> {
        let start = self.position;
        self.string()?;
        let event = Event { token: Token::Key, start, end: self.position, depth: self.depth };
        self.skip_white_space();
        if self.peek() != Some(b':') {
            return Err(self.expected("':'"));
        }
        self.position += 1;
        self.expect = Expect::Value;
        Ok(event)
    }

    fn literal(&mut self, word: &'static [u8], token: Token) -> Result<Token, JsonError> {
        for expected in word {
            if self.peek() != Some(*expected) {
                return Err(self.expected("true, false or null"));
            }
            self.position += 1;
        }
        Ok(token)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.expected("a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.position += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        if self.peek() == Some(b'0') {
            self.position += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.expected("no digit after a leading zero"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.position += 1;
        loop {
            let rest = self.bytes.get(self.position..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
            self.position += plain.unwrap_or(rest.len());
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(JsonError::ControlCharacter { position: self.position }),
                None => return Err(JsonError::UnexpectedEnd { position: self.position }),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let backslash = self.position;
        self.position += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.position += 1;
                Ok(())
            }
            Some(b'u') => {
                self.position += 1;
                let lone = JsonError::LoneSurrogate { position: backslash };
                match self.hex4()? {
                    0xD800..=0xDBFF => match self.bytes.get(self.position..) {
                        Some([b'\\', b'u', ..]) => {
                            self.position += 2;
                            if matches!(self.hex4()?, 0xDC00..=0xDFFF) { Ok(()) } else { Err(lone) }
                        }
                        None | Some([] | [b'\\']) => {
                            Err(JsonError::UnexpectedEnd { position: self.bytes.len() })
                        }
                        Some(_) => Err(lone),
                    },
                    0xDC00..=0xDFFF => Err(lone),
                    _ => Ok(()),
                }
            }
            _ => Err(self.expected("an escape: one of \" \\ / b f n r t u")),
        }
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.expected("four hexadecimal digits")) };
            code = code * 16 + digit;
            self.position += 1;
        }
        Ok(code)
    }
}

impl Iterator for Scanner<'_> {
    type Item = Result<Event, JsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}
