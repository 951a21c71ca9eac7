//! The input of a call with its secrets redacted.

use serde_json::Value;

use super::redact::{REDACTED, Redactor};

/// Longer strings, in bytes, are cut.
const MAX_STRING: usize = 4 << 10;

impl Redactor {
    /// A call's input as shown in a record: secrets are replaced everywhere, after decoding JSON escapes so that
    /// `sk-\u0061…` is found too; members named like secrets lose their value; strings over 4 KiB are cut. Invalid JSON
    /// becomes a string.
    #[must_use]
    pub fn input(&self, input: &str) -> Value {
        match serde_json::from_str::<Value>(input) {
            Ok(mut value) => {
                clean(&mut value, self);
                value
            }
            Err(_) => Value::String(short(self.text(input).into_owned())),
        }
    }
}

fn clean(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => {
            let clean = short(redactor.text(text).into_owned());
            *text = clean;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, redactor)),
        Value::Object(members) => {
            let before = std::mem::take(members);
            for (name, mut member) in before {
                if redactor.is_secret_name(&name) && !member.is_null() {
                    member = Value::String(REDACTED.to_owned());
                } else {
                    clean(&mut member, redactor);
                }
                members.insert(short(redactor.text(&name).into_owned()), member);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Redacts before cutting, so that no half of a secret remains.
fn short(mut text: String) -> String {
    if text.len() > MAX_STRING {
        let total = text.len();
        let end = (0..=MAX_STRING).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("… ({total} bytes)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn clean_of(input: &str) -> Value {
        Redactor::default().input(input)
    }

    #[test]
    fn secrets_are_redacted_anywhere_and_in_any_escaping() {
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        let escaped = token.replace('g', "\\u0067");
        let input = format!(
            r#"{{"op":"set","key":"{token}","value":{{"note":"use {escaped} please","list":["{token}"],"{token}":1}}}}"#
        );
        let kept = clean_of(&input).to_string();
        assert!(!kept.contains(&token) && !kept.contains("a1B2c3D4e5"), "{kept}");
        assert_eq!(kept.matches(REDACTED).count(), 4);
    }

    #[test]
    fn members_named_like_secrets_lose_their_value() {
        let input = r#"{"value":{"password":"tr1vial","API-Key":7,"nested":{"client_secret":["x"]},"passage":"kept","token":null}}"#;
        assert_eq!(
            clean_of(input),
            json!({"value": {"password": REDACTED, "API-Key": REDACTED, "nested": {"client_secret": REDACTED}, "passage": "kept", "token": null}})
        );
    }

    #[test]
    fn invalid_json_is_redacted_as_text_and_long_strings_are_cut() {
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        assert_eq!(clean_of(&format!("{{ {token}")), json!(format!("{{ {REDACTED}")));
        let long = "é".repeat(MAX_STRING);
        let kept = clean_of(&json!({ "value": long }).to_string());
        let text = kept["value"].as_str().unwrap();
        assert!(text.len() < MAX_STRING + 40 && text.ends_with(&format!("({} bytes)", 2 * MAX_STRING)));
    }

    #[test]
    fn a_secret_over_the_cut_leaves_no_half() {
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        for before in MAX_STRING - 50..MAX_STRING + 5 {
            let kept = clean_of(&json!({ "value": format!("{}{token}", " ".repeat(before)) }).to_string());
            assert!(!kept.to_string().contains("ghp_a1"), "{before}");
        }
    }
}
