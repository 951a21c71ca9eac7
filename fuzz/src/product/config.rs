//! `memory.toml`: read, or refused with the place; no value is repeated, no agent exceeds its limits.

use memory::{Config, Policy};

const SECRET: &str = "hunter2";

/// The place of a value in the file.
const PLACES: &[&str] = &[
    "[backends.a]\nurl = ",
    "[backends.a]\nurl = \"sqlite:a\"\n[default]\nbackend = ",
    "[default]\ntenant = ",
    "[default]\nagent = ",
    "[default]\nuser = ",
    "[default]\nmax_rows = ",
    "[default]\nmemory_scopes = ",
    "[default]\nquota = ",
    "[default.quota]\nmax_bytes = ",
    "[agents.x]\nbackend = ",
    "[agents.x]\nsql_scopes = ",
    "[limits]\nmax_answer_bytes = ",
    "[sql]\nenabled = ",
];

/// Tries one file, and its first line as every kind of value in every place.
pub fn run(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    if let Ok(config) = Config::parse(text, "memory.toml") {
        sound(&config);
    }
    let line = text.lines().next().unwrap_or_default();
    let quoted = toml_string(&format!("{line}{SECRET}"));
    for place in PLACES {
        for value in [quoted.clone(), format!("[{quoted}]"), format!("{{ max_rows = {quoted} }}"), bare(line)] {
            silent(&format!("{place}{value}\n"));
        }
    }
}

fn sound(config: &Config) {
    let limits = &config.file().limits;
    for agent in config.file().agents.keys().map(String::as_str).chain(["nobody in particular"]) {
        let Ok(binding) = config.agent(agent) else { continue };
        assert!(config.backend_url(&binding.backend).is_ok());
        let policy = binding.policy;
        assert!((1..=limits.max_rows).contains(&policy.max_rows));
        assert!(policy.max_answer_bytes <= limits.max_answer_bytes);
        assert_eq!(policy.max_input_bytes, limits.max_input_bytes);
        assert!(config.file().sql.enabled || policy.sql_scopes.is_empty());
        assert_eq!(policy.narrow(&policy), policy);
        assert!(Policy::deny_all().narrow(&policy).memory_scopes.is_empty());
        for (own, limit) in [
            (policy.quota.max_entries, limits.quota.max_entries),
            (policy.quota.max_bytes, limits.quota.max_bytes),
            (policy.sql_max_bytes, limits.sql_max_bytes),
        ] {
            assert!(limit.is_none() || own.is_some_and(|own| Some(own) <= limit));
        }
    }
    assert!(config.warnings().iter().all(|warning| !warning.is_empty()));
}

/// An error names the place and never the value, which may be a password in a URL.
fn silent(text: &str) {
    if let Err(error) = Config::parse(text, "memory.toml") {
        assert!(error.to_string().contains("memory.toml"));
        let chain = format!("{error} {:?}", error.details());
        assert!(!chain.contains(SECRET), "{text:?}: {chain}");
    }
}

/// A wrongly quoted value.
fn bare(line: &str) -> String {
    format!("{}{SECRET}", line.replace(SECRET, ""))
}

fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}
