//! Finds every problem in a `memory.toml`, not only the first.

use std::path::PathBuf;

use memory_core::{Error, Result};

use super::sections::file::{ConfigFile, with_sql};
use super::{Config, MAX_CONFIG_BYTES, error};

/// Most unknown keys to look for.
const MAX_UNKNOWN: usize = 64;

impl Config {
    /// Parses a file like [`Config::parse`], but continues after errors: reports every unknown key and every dangling
    /// reference. The configuration is `None` if too little of it is valid.
    #[must_use]
    pub fn examine(text: &str, origin: impl Into<PathBuf>) -> (Option<Self>, Vec<Error>) {
        let origin = origin.into();
        let mut problems = Vec::new();
        if text.len() > MAX_CONFIG_BYTES {
            problems.push(Error::too_large("configuration", text.len(), MAX_CONFIG_BYTES, "bytes"));
            return (None, problems);
        }
        let mut left = text.to_owned();
        for _ in 0..MAX_UNKNOWN {
            let failed = match toml::from_str::<ConfigFile>(&left) {
                Ok(mut file) => {
                    for section in file.backends.values_mut() {
                        section.url = with_sql(&section.url, &section.sql);
                    }
                    let config = Self { origin, file };
                    problems.extend(
                        config.problems().into_iter().map(|problem| error::in_file(problem, &config.origin)),
                    );
                    return (Some(config), problems);
                }
                Err(failed) => failed,
            };
            let next = without(&left, &failed);
            // Checking the same place again would only find errors caused by removing the first.
            if problems.is_empty() || next.is_some() {
                problems.push(error::explain(&failed, &left, &origin));
            }
            match next {
                Some(next) => left = next,
                None => break,
            }
        }
        (None, problems)
    }

    /// Everything that [`Config::parse`] refuses.
    pub(super) fn problems(&self) -> Vec<Error> {
        let mut problems = Vec::new();
        let mut note = |checked: Result<()>| problems.extend(checked.err());
        let sql = self.file.sql;
        if sql.workers > 64 {
            note(Err(Error::invalid(format!("[sql] workers is {}; it must be 0 to 64", sql.workers))));
        }
        if sql.worker_memory_bytes.is_some_and(|bytes| bytes < 256 << 20) {
            note(Err(Error::invalid("[sql] worker_memory_bytes must be at least 268435456 (256 MiB)")));
        }
        let of_agents =
            self.file.agents.iter().map(|(name, agent)| (format!("[agents.{name}]"), agent.backend.as_ref()));
        for (place, backend) in
            std::iter::once(("[default]".to_owned(), self.file.default.backend.as_ref())).chain(of_agents)
        {
            if let Some(backend) = backend {
                note(self.check_backend_name(backend).map_err(|error| {
                    Error::invalid(format!("{place} binds to a backend that is not under [backends]"))
                        .with_source(error)
                }));
            }
        }
        note(self.file.limits.check());
        note(self.file.audit.check());
        note(self.file.gc.check());
        note(self.file.http.check());
        note(self.file.snapshot.check());
        note(self.check_embedders());
        note(self.check_models());
        note(self.file.recall.extract.check());
        note(self.file.recall.bm25.map_or(Ok(()), |bm25| bm25.check()));
        for (name, section) in &self.file.backends {
            note(self.check_fallback(name, section));
        }
        note(self.check_files());
        note(self.file.default.rules().check("[default]", &self.file.limits));
        for (name, agent) in &self.file.agents {
            note(agent.rules().check(&format!("[agents.{name}]"), &self.file.limits));
        }
        problems
    }
}

/// The text without the line or section of an unknown key, with line numbers unchanged. `None` for any other error.
fn without(text: &str, error: &toml::de::Error) -> Option<String> {
    if !error.message().contains("unknown field") {
        return None;
    }
    let at = error.span().and_then(|span| text.get(..span.start))?.matches('\n').count();
    let is_header = text.lines().nth(at)?.trim_start().starts_with('[');
    let mut inside = false;
    let lines: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(number, line)| {
            let begins = line.trim_start().starts_with('[');
            inside = number == at || (inside && is_header && !begins);
            if inside { "" } else { line }
        })
        .collect();
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unknown_key_and_every_missing_reference_is_named() {
        let text = "[backends.a]\nurl = \"sqlite:a.db\"\nspeed = 9\nfallback = \"z\"\n[nonsense]\nx = 1\ny = 2\n\
                    [default]\nbackend = \"b\"\n[agents.x]\nbackend = \"c\"\nmax_row = 1\n";
        let (config, problems) = Config::examine(text, "memory.toml");
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let all = all.join("\n");
        for named in [
            "line 3",
            "speed",
            "line 5",
            "nonsense",
            "line 12",
            "max_row",
            "[default]",
            "[agents.x]",
            "[backends.a]",
        ] {
            assert!(all.contains(named), "{named} is not in:\n{all}");
        }
        assert_eq!(problems.len(), 6, "{all}");
        assert!(config.is_some());
        let (_, problems) = Config::examine("[backends.a\n", "memory.toml");
        assert_eq!(problems.len(), 1);
        let (config, problems) = Config::examine("[backends.a]\nurl = \"sqlite:a.db\"\n", "memory.toml");
        assert!(config.is_some() && problems.is_empty());
    }
}
