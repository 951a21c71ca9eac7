//! Hides the host's paths from a model: errors name files without their folders. Logs, the command line and programs
//! see the full path.

use std::borrow::Cow;

use serde_json::Value;

/// Characters that end a path in a sentence.
const ENDS: &[char] = &['`', '"', '\'', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '=', '|'];
/// Extensions of the files that this project's programs name. They identify relative paths.
const FILES: &[&str] = &[
    "crt",
    "db",
    "drift",
    "json",
    "jsonl",
    "key",
    "log",
    "pem",
    "safetensors",
    "sock",
    "sql",
    "sqlite",
    "toml",
    "txt",
];

/// The text with every path of the host cut to the name of the file or folder. Paths that appear in the call itself are
/// the caller's own, and stay.
pub(crate) fn without_paths<'a>(text: &'a str, sent: &str) -> Cow<'a, str> {
    if !text.contains(['/', '\\']) {
        return Cow::Borrowed(text);
    }
    // In one form, however the caller escaped it.
    let sent = serde_json::from_str::<Value>(sent).map(|sent| sent.to_string()).unwrap_or_default();
    text.split_inclusive(|c: char| c.is_whitespace() || ENDS.contains(&c))
        .map(|word| shortened(word, &sent))
        .collect::<String>()
        .into()
}

fn shortened<'a>(word: &'a str, sent: &str) -> &'a str {
    // Whatever follows a file scheme, as in `sqlite:/srv/a.db`; a web address stays.
    let path = match word.split_once(':') {
        Some(("sqlite" | "file", path)) => path,
        Some((_, rest)) if rest.starts_with("//") => return word,
        _ => word,
    };
    let end =
        path.trim_end_matches(|c: char| c.is_whitespace() || ENDS.contains(&c) || matches!(c, '.' | ':'));
    let Some((folders, name)) = end.rsplit_once(['/', '\\']) else { return word };
    let is_file = || {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let ending = ending.split_once('-').map_or(ending, |(ending, _)| ending);
        FILES.contains(&ending)
    };
    let is_rooted = end.starts_with(['/', '~'])
        || folders.starts_with("\\\\")
        || folders.starts_with("./")
        || folders.starts_with("..")
        || matches!(folders.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic());
    let begins_a_name = name.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let is_callers = || sent.contains(&end.replace('\\', "\\\\"));
    match begins_a_name && (is_rooted || is_file()) && !is_callers() {
        true => path.get(folders.len() + 1..).unwrap_or(word),
        false => word,
    }
}

/// The last part of a text that is a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_host_is_cut_to_its_name() {
        for (text, shown) in [
            (
                "/srv/memory/main.db cannot be written: permission denied",
                "main.db cannot be written: permission denied",
            ),
            ("the secret file `/run/secrets/mem0` is gone", "the secret file `mem0` is gone"),
            ("the secret file `keys/mem0.key` is gone", "the secret file `mem0.key` is gone"),
            ("/etc/memory/memory.toml, line 3: unknown key", "memory.toml, line 3: unknown key"),
            ("moved to /srv/memory/main.db.", "moved to main.db."),
            ("open sqlite:/srv/a.db or file:///srv/b.db", "open a.db or b.db"),
            ("C:\\Users\\ada\\memory.db is locked", "memory.db is locked"),
            ("(see \"../x/journal.db-wal\")", "(see \"journal.db-wal\")"),
            ("`~/.config/memory`", "`memory`"),
        ] {
            assert_eq!(without_paths(text, ""), shown);
        }
    }

    #[test]
    fn other_slashes_stay() {
        for text in [
            "send text/plain or application/json",
            "the operator does not allow and/or, 1/2, a / b, /* c */ and //",
            "the scope default/user/ada",
            "https://api.example/v1/a.json answered 404",
            "no slash at all",
            "write a \\uD8xx\\uDCxx pair or the character itself",
        ] {
            assert_eq!(without_paths(text, ""), text);
        }
    }

    #[test]
    fn what_the_caller_sent_stays() {
        let sent = r#"{"memory_id":"\/etc/passwd","note":"C:\\ada\\x.db and \u002fhome/é"}"#;
        let text = "has a memory '/etc/passwd', C:\\ada\\x.db, /home/é; see /srv/main.db";
        assert_eq!(without_paths(text, sent), text.replace("/srv/", ""));
    }
}
