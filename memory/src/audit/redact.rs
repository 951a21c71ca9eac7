//! Removing secrets from records.

use std::borrow::Cow;

use memory_core::{Error, Result};
use regex::{Regex, RegexBuilder};

/// Replaces redacted text in a record.
pub const REDACTED: &str = "[redacted]";

/// Most patterns that an operator may add.
const MAX_PATTERNS: usize = 100;
/// Longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1_024;
/// Most memory of one compiled pattern.
const COMPILED_BYTES: usize = 1 << 20;

/// Shapes of well-known secrets. Each starts with something rare in ordinary text, so that prose stays readable. A
/// group named `keep` is not replaced.
const SHAPES: &[&str] = &[
    // A private key in PEM, whole or cut off.
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    // Anthropic, OpenAI and the many that copied its prefix; Stripe.
    r"(?P<keep>\b|_)(?:sk|rk|pk)[-_](?:ant-|proj-|live_|test_|or-|lf-|svcacct-)?[A-Za-z0-9_-]{16,}",
    // GitHub, GitLab, npm, PyPI, Hugging Face, DigitalOcean, Linear, Notion, Shopify, Doppler, Databricks.
    r"(?P<keep>\b|_)(?:gh[pousr]_|github_pat_|glpat-|npm_|pypi-|hf_|do[opr]_v1_|lin_api_|ntn_|secret_|shp(?:at|ca|pa|ss)_|dp\.pt\.|dapi)[A-Za-z0-9_-]{20,}",
    // AWS access key ids; Google API keys and OAuth tokens.
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bya29\.[A-Za-z0-9_-]{20,}",
    // Slack, SendGrid, Telegram, Twilio, Mailgun, Square.
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}",
    r"\b(?:SK|AC)[0-9a-f]{32}\b",
    r"\bkey-[0-9a-f]{32}\b",
    r"\bsq0[a-z]{3}-[A-Za-z0-9_-]{22,}",
    // A JSON Web Token, signed or encrypted.
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,3}",
    // Credentials in a URL, and the value of an Authorization header.
    r"(?P<keep>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@]+@",
    r"(?i)(?P<keep>\b(?:bearer|basic|token)[ \t]+)[A-Za-z0-9._~+/=-]{16,}",
    // An assignment to a revealing name: `DB_PASSWORD=…`, `api_key: …`, `"secret": "…"`.
    r#"(?i)(?P<keep>\b[a-z0-9_.-]*(?:password|passwd|passphrase|secret|api[_-]?key|apikey|access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token|private[_-]?key|credentials?|account[_-]?key)["']?[ \t]*(?::=|[:=])[ \t]*)(?:"[^"\r\n]*"?|'[^'\r\n]*'?|[^\s"',;&]+)"#,
];

/// Object members whose value is a secret, in lower case without `_` and `-`.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "credential",
    "credentials",
    "privatekey",
    "cookie",
    "setcookie",
];
/// Endings that mark longer names: `client_secret`, `AWS_SECRET_ACCESS_KEY`.
const SECRET_ENDINGS: &[&str] =
    &["password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey"];

/// Replaces secrets with [`REDACTED`]: well-known shapes of tokens, and matches of the operator's patterns. Every
/// pattern runs in linear time (the `regex` crate has no backtracking).
///
/// This is a safety net, not a guarantee: a secret without a recognisable shape passes.
#[derive(Clone, Debug)]
pub struct Redactor {
    shapes: Vec<Regex>,
}

impl Default for Redactor {
    fn default() -> Self {
        // A test compiles every shape; one that did not compile would be left out here.
        Self { shapes: SHAPES.iter().filter_map(|shape| compile(shape).ok()).collect() }
    }
}

impl Redactor {
    /// The well-known shapes plus these patterns, in the syntax of the `regex` crate. A group named `keep` is not
    /// replaced.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed pattern, one that matches the empty text, one over 1,024 bytes, or more than
    /// 100.
    pub fn with_patterns<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut redactor = Self::default();
        for (index, pattern) in patterns.into_iter().enumerate() {
            let pattern = pattern.as_ref();
            if index >= MAX_PATTERNS {
                return Err(Error::too_large("redact", index + 1, MAX_PATTERNS, "patterns"));
            }
            if pattern.len() > MAX_PATTERN_BYTES {
                return Err(Error::too_large("redact", pattern.len(), MAX_PATTERN_BYTES, "bytes"));
            }
            let regex = compile(pattern).map_err(|error| {
                // The crate's message repeats the pattern first.
                let why = error.to_string();
                let why = why.rsplit_once("error: ").map_or(why.as_str(), |(_, why)| why);
                Error::invalid(format!("pattern {} of `redact` is not accepted: {why}", index + 1))
                    .with_detail("index", index)
            })?;
            if regex.is_match("") {
                return Err(Error::invalid(format!(
                    "pattern {} of `redact` matches the empty text; say what it must contain",
                    index + 1
                ))
                .with_detail("index", index));
            }
            redactor.shapes.push(regex);
        }
        Ok(redactor)
    }

    /// The text without its secrets.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut clean = Cow::Borrowed(text);
        for shape in &self.shapes {
            let replaced = shape.replace_all(&clean, |found: &regex::Captures<'_>| {
                let kept = found.name("keep").map_or("", |kept| kept.as_str());
                // Keep the `@` of a URL.
                let after =
                    if found.get(0).is_some_and(|all| all.as_str().ends_with('@')) { "@" } else { "" };
                format!("{kept}{REDACTED}{after}")
            });
            if let Cow::Owned(replaced) = replaced {
                clean = Cow::Owned(replaced);
            }
        }
        clean
    }

    /// Whether a member with this name holds a secret.
    #[must_use]
    pub fn is_secret_name(&self, name: &str) -> bool {
        let plain: String = name
            .chars()
            .filter(|c| !matches!(c, '_' | '-' | '.' | ' '))
            .take(256)
            .flat_map(char::to_lowercase)
            .collect();
        SECRET_NAMES.contains(&plain.as_str()) || SECRET_ENDINGS.iter().any(|ending| plain.ends_with(ending))
    }
}

fn compile(pattern: &str) -> std::result::Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_compiles() {
        assert_eq!(Redactor::default().shapes.len(), SHAPES.len());
    }

    #[test]
    fn well_known_tokens_are_redacted_and_the_text_around_them_stays() {
        let redactor = Redactor::default();
        let long = "a1B2c3D4e5F6g7H8i9J0".repeat(2);
        for secret in [
            format!("sk-ant-api03-{long}"),
            format!("sk-proj-{long}"),
            format!("sk_live_{long}"),
            format!("ghp_{long}"),
            format!("github_pat_{long}"),
            format!("glpat-{long}"),
            format!("hf_{long}"),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            format!("AIza{long}"),
            format!("xoxb-123456789012-{long}"),
            format!("SG.{long}.{long}"),
            format!("123456789:AA{long}"),
            format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{long}"),
            "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nxyz\n-----END RSA PRIVATE KEY-----".to_owned(),
        ] {
            let text = format!("before {secret} after");
            assert_eq!(redactor.text(&text), format!("before {REDACTED} after"), "{secret}");
        }
    }

    #[test]
    fn the_label_of_a_secret_stays_and_the_secret_is_redacted() {
        let redactor = Redactor::default();
        for (text, clean) in [
            ("postgres://ann:hunter2@db/x", "postgres://[redacted]@db/x"),
            ("postgres://token@db/x", "postgres://[redacted]@db/x"),
            ("my_ghp_a1B2c3D4e5a1B2c3D4e5", "my_[redacted]"),
            ("Authorization: Bearer abcdefghijklmnop123", "Authorization: Bearer [redacted]"),
            ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=[redacted] next"),
            ("api_key: 'a b c', x", "api_key: [redacted], x"),
            (r#"{"client_secret": "x y"}"#, r#"{"client_secret": [redacted]}"#),
            ("https://h/?api_key=abc&page=2", "https://h/?api_key=[redacted]&page=2"),
            ("-----BEGIN PRIVATE KEY-----\ncut off here", "[redacted]"),
        ] {
            assert_eq!(redactor.text(text), clean);
        }
    }

    #[test]
    fn prose_is_unchanged() {
        let redactor = Redactor::default();
        for text in [
            "Ann prefers window seats; her passport is in the drawer.",
            "the secret to good tea is water, and the key is time",
            "see https://example.com/a?b=c or mail ann@example.com",
            "sk-learn and pk-1 are no tokens; neither is basic training",
            "SELECT key, value FROM entry WHERE token_count > 5",
        ] {
            assert_eq!(redactor.text(text), text);
        }
    }

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        let redactor = Redactor::default();
        for name in
            ["password", "API_KEY", "apiKey", "X-Api-Key", "client_secret", "refreshToken", "Authorization"]
        {
            assert!(redactor.is_secret_name(name), "{name}");
        }
        for name in ["key", "keys", "tokens", "token_count", "passage", "secretary", "value"] {
            assert!(!redactor.is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn an_operators_patterns_are_added_and_bad_ones_refused() {
        let redactor = Redactor::with_patterns([r"EMP-\d{6}", r"(?P<keep>badge )\w+"]).unwrap();
        assert_eq!(redactor.text("EMP-123456 with badge zebra"), "[redacted] with badge [redacted]");
        for bad in ["(hunter2", "a*", &"x".repeat(2_000), r"(?:\w{500}){500}"] {
            let error = Redactor::with_patterns([bad]).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && !error.contains('\n'), "{error}");
        }
        assert!(Redactor::with_patterns(vec!["x"; 101]).is_err());
    }
}
