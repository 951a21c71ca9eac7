//! Redaction: a token is in no record, whatever surrounds it and however it is spelled.
//!
//! Lines: what precedes the token, what follows it, the name of its member, and which characters of the token are
//! escaped (one bit each, in hex).

use memory::audit::{REDACTED, Redactor};
use serde_json::Value;

const TOKEN: &str = "ghp_a1B2c3D4e5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

thread_local! {
    static REDACTOR: Redactor = Redactor::default();
}

/// Tries one input as a call, and as the surroundings of a token.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    REDACTOR.with(|redactor| {
        let _ = redactor.input(&text);
        let _ = redactor.is_secret_name(&text);
        let mut lines = text.split('\n').map(|line| line.replace(TOKEN, ""));
        let mut line = || lines.next().unwrap_or_default();
        let (before, after, name, escaped) = (line(), line(), line(), line());
        let escaped = u64::from_str_radix(&escaped, 16).unwrap_or(0);
        // A letter or digit directly before it makes it part of another word.
        let value = format!("{before} {TOKEN} {after}");
        hidden(&redactor.text(&value));
        let string = format!("\"{}\"", escape(&value, before.len() + 1, escaped));
        assert_eq!(serde_json::from_str::<String>(&string).expect("a string"), value);
        let quoted = Value::from(name.as_str()).to_string();
        for call in [
            string.clone(),
            format!("{{{quoted}:{string}}}"),
            format!("{{{string}:1,{quoted}:[[{string}]]}}"),
            // No JSON.
            format!("{{{quoted}:{string}").replace("\\u00", "?"),
        ] {
            hidden(&redactor.input(&call).to_string());
        }
    });
}

fn hidden(kept: &str) {
    assert!(!kept.contains(TOKEN), "{kept}");
    assert!(!kept.contains(&TOKEN[4..24]) || !kept.contains(REDACTED), "{kept}");
}

/// Escapes as JSON requires, and those of the token's characters selected by `which`.
fn escape(text: &str, start: usize, which: u64) -> String {
    text.char_indices()
        .map(|(at, c)| {
            let place = at.wrapping_sub(start);
            if c < ' ' || c == '"' || c == '\\' || place < TOKEN.len() && which >> place & 1 == 1 {
                format!("\\u{:04x}", u32::from(c))
            } else {
                c.to_string()
            }
        })
        .collect()
}
