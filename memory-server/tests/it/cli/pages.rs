//! The commands shown in README and docs/: each is one of the program's. [`sessions`](super::sessions) runs them.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README and the pages of docs/, by their path.
pub(super) fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut pages: Vec<PathBuf> = pages.chain([root().join("README.md")]).collect();
    pages.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().display().to_string(), text)
    };
    pages.into_iter().map(read).collect()
}

/// The blocks of shell commands.
pub(super) fn blocks(page: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```sh") || line.starts_with("```console") {
            blocks.push(lines.by_ref().take_while(|line| !line.starts_with("```")).collect());
        }
    }
    blocks
}

/// The words of the first command of a line, as a shell divides it: up to a comment, a pipe, a redirection or `&`.
/// `None` if it is not `memory`.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    // Typed at the prompt of `memory shell`.
    if let Some((prompt, typed)) = line.split_once("> ")
        && prompt.starts_with("memory ")
        && prompt.split(' ').count() == 2
    {
        return words(&format!("memory {typed}"));
    }
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | '>' | ';') => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    (words.first()? == "memory").then_some(words)
}

#[test]
fn every_command_of_the_pages_is_one_of_the_program() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (page, text) in pages() {
        for line in blocks(&text).concat() {
            let Some(words) = words(line) else { continue };
            seen += 1;
            // Values may be placeholders.
            if let Err(error) = memory_server::command_line().try_get_matches_from(words)
                && error.kind() != clap::error::ErrorKind::ValueValidation
            {
                wrong.push(format!("{page}: {line}\n{error}"));
            }
        }
    }
    assert!(seen > 100, "only {seen} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
