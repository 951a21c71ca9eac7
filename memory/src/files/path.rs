//! Paths as a model writes them.

use std::borrow::Cow;
use std::fmt;

use memory_core::layer::printable;
use memory_core::{Error, Key, Result};

use super::refused::{Done, Refused};
use crate::tool::cut;

/// The folder of all files. A file's path is the key of its entry.
pub const ROOT: &str = "/memories";

/// A path in its only form: `/memories`, or names below it, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePath(Key);

impl FilePath {
    /// A path that may be written to. Names that a listing would escape are refused, because others could not tell what
    /// they are.
    pub(super) fn parse_new(given: &str) -> Done<Self> {
        if shown(given) != given {
            let text = format!(
                "Error: Invalid path {}: it has a backslash, a control character, an end of a line or a mark of direction",
                cut(&shown(given))
            );
            return Err(Refused::invalid(text));
        }
        Self::parse(given)
    }

    /// Accepts `/memories` and anything below it, with the escapes that a listing shows. Refuses anything that could
    /// mean another place to someone who decodes, joins or normalises the path again.
    pub(super) fn parse(given: &str) -> Done<Self> {
        let shown = cut(given);
        let refuse = |why: &str| Err(Refused::invalid(format!("Error: Invalid path {shown}: {why}")));
        let names = match given.strip_prefix(ROOT) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.strip_suffix('/').unwrap_or(rest),
            _ => return Err(Refused::invalid(format!("Error: Path must start with {ROOT}, got: {shown}"))),
        };
        let Some(named) = unescaped(names).filter(|_| !given.contains(char::is_control)) else {
            return refuse("it has a backslash or a control character that no listing shows like that");
        };
        if encodes_a_separator(names) {
            return refuse(
                "it has an encoded dot, slash, backslash or percent sign; write the path as it is",
            );
        }
        for name in names.split('/').skip(1) {
            match name {
                "" => return refuse("it has an empty name; write one slash between two names"),
                "." | ".." => return refuse("`.` and `..` are no names of files; write the path in full"),
                name if name.trim() != name => return refuse("a name begins or ends with a space"),
                _ => {}
            }
        }
        Ok(Self(Key::new(format!("{ROOT}{named}"))?))
    }

    pub(super) fn is_root(&self) -> bool {
        self.as_str() == ROOT
    }

    pub(super) fn key(&self) -> &Key {
        &self.0
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The prefix of the keys of everything below it.
    pub(super) fn prefix(&self) -> String {
        format!("{}/", self.as_str())
    }

    /// The folders it is in, without the root.
    pub(super) fn folders(&self) -> Vec<Key> {
        let text = self.as_str();
        text.match_indices('/')
            .filter(|(at, _)| *at > ROOT.len())
            .filter_map(|(at, _)| Key::new(text.get(..at)?).ok())
            .collect()
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.as_str()))
    }
}

/// A path or name as shown: a backslash precedes another backslash or a code.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match name.contains('\\') {
        true => Cow::Owned(printable(&name.replace('\\', "\\\\"), "").into_owned()),
        false => printable(name, ""),
    }
}

/// Undoes the escapes of [`shown`]; `None` if they are malformed.
fn unescaped(text: &str) -> Option<String> {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, code)) = rest.split_once('\\') {
        plain.push_str(before);
        let (character, after) = match code.strip_prefix("u{") {
            Some(code) => {
                let (digits, after) = code.split_once('}')?;
                (char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, after)
            }
            None => {
                let known = [("\\", '\\'), ("t", '\t'), ("n", '\n'), ("r", '\r')];
                known.into_iter().find_map(|(name, is)| Some((is, code.strip_prefix(name)?)))?
            }
        };
        plain.push(character);
        rest = after;
    }
    plain.push_str(rest);
    // Nothing else may be written in codes, such as dots.
    (!text.contains('\\') || shown(&plain) == text).then_some(plain)
}

/// The key of the file at a path, for programs that bring files from elsewhere.
///
/// # Errors
/// `invalid_argument` or `too_large` for a path that the tool refuses.
pub fn file_key(path: &str) -> Result<Key> {
    match FilePath::parse_new(path) {
        Ok(path) => Ok(path.0),
        Err(Refused::Said(kind, text)) => Err(Error::new(kind, text)),
        Err(Refused::Failed(error)) => Err(error),
    }
}

/// Whether a percent sign encodes what has a meaning in a path, once or more often.
fn encodes_a_separator(text: &str) -> bool {
    text.match_indices('%').any(|(at, _)| {
        let code = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        code.is_some_and(|code| code.is_ascii_control() || matches!(code, b'.' | b'/' | b'\\' | b'%'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form() {
        for (given, path) in [
            ("/memories", "/memories"),
            ("/memories/", "/memories"),
            ("/memories/a.txt", "/memories/a.txt"),
            ("/memories/a b/ü/", "/memories/a b/ü"),
            ("/memories/100%/...", "/memories/100%/..."),
        ] {
            assert_eq!(FilePath::parse(given).unwrap().as_str(), path);
        }
        let folders = FilePath::parse("/memories/a/b/c").unwrap().folders();
        assert_eq!(folders.iter().map(Key::as_str).collect::<Vec<_>>(), ["/memories/a", "/memories/a/b"]);
        assert!(FilePath::parse("/memories/a").unwrap().folders().is_empty());
    }

    #[test]
    fn what_a_listing_shows_is_taken_back_and_not_written_anew() {
        for name in ["\u{202e}evil.md", "a\nb", "a\n", "\u{2028}", "a\\b", "\\u{202e}", "\u{7f}\t", "..\\a"] {
            let shown = format!("/memories/n/{}", shown(name));
            let path = FilePath::parse(&shown).unwrap();
            assert_eq!(
                (path.as_str(), path.to_string()),
                (format!("/memories/n/{name}").as_str(), shown.clone())
            );
            for given in [path.as_str(), &shown] {
                assert!(FilePath::parse_new(given).is_err() && file_key(given).is_err(), "{shown}");
            }
        }
        for given in
            ["\\u{2e}\\u{2e}", "a\\u{2f}b", "\\u{0009}", "\\u{202E}", "\\u{d800}", "\\u{202e", "\\x", "\\"]
        {
            assert!(FilePath::parse(&format!("/memories/{given}")).is_err(), "{given}");
        }
    }

    #[test]
    fn what_may_lead_elsewhere_is_refused() {
        for bad in [
            "",
            "/",
            "memories/a",
            "/memoriesx",
            "/memories../a",
            "/etc/passwd",
            "/Memories/a",
            "/memories/../etc",
            "/memories/a/..",
            "/memories/./a",
            "/memories//a",
            "/memories/a//",
            "/memories/..\\a",
            "/memories\\a",
            "/memories/%2e%2e/a",
            "/memories/%2E./a",
            "/memories/a%2fb",
            "/memories/a%5Cb",
            "/memories/%252e",
            "/memories/a%00",
            "/memories/a\0",
            "/memories/a\nb",
            "/memories/ a",
            "/memories/a ",
            "~",
            "$HOME",
            "file:///memories/a",
        ] {
            assert!(FilePath::parse(bad).is_err(), "{bad}");
        }
        let long = format!("/memories/{}", "a".repeat(1_015));
        assert!(matches!(FilePath::parse(&long), Err(Refused::Failed(_))));
    }
}
