//! The name that a token spells: unquoted, folded as the engine folds it.

use std::borrow::Cow;

/// SQLite: ASCII letters in lower case, even in quotes.
pub(crate) fn sqlite_name(text: &str) -> Cow<'_, str> {
    let quote = text.as_bytes().first().copied().unwrap_or(0);
    let inner = match quote {
        b'"' | b'`' | b'\'' | b'[' => text.get(1..text.len().saturating_sub(1)).unwrap_or_default(),
        _ => text,
    };
    let doubled = match quote {
        b'"' => inner.contains("\"\"").then(|| inner.replace("\"\"", "\"")),
        b'`' => inner.contains("``").then(|| inner.replace("``", "`")),
        b'\'' => inner.contains("''").then(|| inner.replace("''", "'")),
        _ => None,
    };
    match doubled {
        Some(name) => Cow::Owned(name.to_ascii_lowercase()),
        None if inner.bytes().any(|byte| byte.is_ascii_uppercase()) => Cow::Owned(inner.to_ascii_lowercase()),
        None => Cow::Borrowed(inner),
    }
}

/// PostgreSQL: unchanged if quoted, otherwise with ASCII letters in lower case.
pub(crate) fn postgres_name(text: &str) -> Cow<'_, str> {
    if text.starts_with('"') {
        let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        return if inner.contains("\"\"") {
            Cow::Owned(inner.replace("\"\"", "\""))
        } else {
            Cow::Borrowed(inner)
        };
    }
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(text.to_ascii_lowercase());
    }
    Cow::Borrowed(text)
}
