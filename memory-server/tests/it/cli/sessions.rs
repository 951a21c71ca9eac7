//! Runs the commands of README and docs/, each page as one script in an empty home, and compares the output that a page
//! shows.
//!
//! Every line is run unless [`NOT_RUN`] says why not, or it has a placeholder: a word in capitals, as in `forget ID`, or `…`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;

use super::pages::{blocks, pages, words};
use crate::support::user::{User, at_home};

/// Lines that are not run: the page, or "" for every page, the beginning of the line, and the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("", "cargo ", "compiles"),
    ("", "memory-lab ", "another program, with tests of its own"),
    ("", "docker ", "needs a daemon and the network"),
    ("", "pip ", "needs the network"),
    ("", "python3 examples/", "needs packages of PyPI; `cargo xtask python` runs it"),
    ("", "sudo ", "changes the machine"),
    ("docs/benchmarks.md", "MEMORY_TOKEN=", "the laboratory"),
    ("docs/cli.md", "memory add 'I live in Lisbon' --backend mem0", "needs mem0"),
    ("docs/cli.md", "memory backend ", "within [definitions]: backends.md runs it"),
    ("docs/cli.md", "memory config init", "`memory init` has written the file"),
    ("docs/cli.md", "memory extract ", "needs a language model"),
    ("docs/cli.md", "memory graph migrate", "needs a database of the original"),
    ("docs/cli.md", "memory migrate ", "needs PostgreSQL"),
    ("docs/cli.md", "memory postgres ", "needs PostgreSQL"),
    ("docs/cli.md", "memory reembed ", "needs the embedder `local` in memory.toml"),
    ("docs/cli.md", "memory user:ada> ", "typed at the prompt"),
    ("docs/embedders.md", "memory search \"who has pets\"", "needs the model that the line above gets"),
    ("docs/embedders.md", "unzip ", "what `pip` gets"),
    ("docs/embedders.md", "cd ", "what `pip` gets"),
    ("docs/embedders.md", "mv ", "what `pip` gets"),
    ("docs/embedders.md", "echo ", "what `pip` gets"),
    ("docs/embedders.md", "hf ", "needs the network"),
    ("docs/hierarchical.md", "eval ", "compiles"),
    ("docs/http.md", "OTEL_EXPORTER_OTLP_ENDPOINT=", "needs a collector"),
    ("docs/importing.md", "curl ", "needs mem0"),
    ("docs/importing.md", "memory facts ", "needs mem0"),
    ("docs/importing.md", "memory import store.db", "needs a store that LangGraph made"),
    ("docs/importing.md", "psql ", "needs PostgreSQL"),
    ("docs/mcp.md", "memory serve --backend mem0", "needs mem0"),
    ("docs/mem0.md", "", "needs mem0"),
    ("docs/mem9.md", "", "needs mem9"),
    ("docs/postgres.md", "", "needs PostgreSQL"),
    ("docs/recall.md", "memory extract ", "needs a language model"),
    ("docs/snapshots.md", "memory migrate ", "needs PostgreSQL"),
    ("docs/vendor.md", "", "compiles; `cargo xtask check --only vendor` runs it"),
];

/// What a page assumes, as commands.
const GIVEN: &[(&str, &str)] = &[
    ("README.md", CONVERSATION),
    (
        "docs/backends.md",
        "mkdir -p data/agents\nprintf '[definitions]\nschemes = [\"sqlite\"]\npaths = [\"data/agents\"]\n' > memory.toml",
    ),
    (
        "docs/cli.md",
        "memory init\n\
         echo '{\"a\": 1}' > value.json\n\
         echo '[{\"role\": \"user\", \"content\": \"I live in Lisbon\"}]' > said.json\n\
         memory sql 'CREATE TABLE people (name TEXT, age INTEGER)'\n\
         mkdir -p .local/share/bash-completion/completions .zfunc .config/fish/completions",
    ),
    (
        "docs/governed.md",
        "memory note 'issue redis_timeout: Redis times out'\nmemory note 'resolved redis_timeout'\nmemory promote",
    ),
    (
        "docs/http-api.md",
        "printf '[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nmemory_scopes = [\"agent\"]\nshared_state = \"note\"\n' > memory.toml\n\
         echo fail-with-body > .curlrc",
    ),
    (
        "docs/importing.md",
        "mkdir -p .claude/projects/src chats notes\n\
         echo '{\"role\": \"user\", \"content\": \"I live in Lisbon\"}' > chat.jsonl\n\
         echo '[{\"sample_id\": \"conv-26\", \"conversation\": {\"session_1\": [{\"speaker\": \"Ada\", \"dia_id\": \"D1:1\", \"text\": \"Hello\"}], \"session_1_date_time\": \"1:56 pm on 8 May, 2023\"}}]' > locomo10.json\n\
         echo '{\"type\": \"user\", \"uuid\": \"u1\", \"sessionId\": \"s1\", \"timestamp\": \"2026-01-01T00:00:00Z\", \"message\": {\"role\": \"user\", \"content\": \"Hello\"}}' > .claude/projects/src/s1.jsonl\n\
         mkdir -p export; echo '[{\"conversation_id\": \"c1\", \"current_node\": \"a\", \"mapping\": {\"a\": {\"id\": \"a\", \"parent\": null, \"children\": [], \"message\": {\"id\": \"a\", \"author\": {\"role\": \"user\"}, \"content\": {\"content_type\": \"text\", \"parts\": [\"Where to?\"]}}}}}]' > export/conversations.json\n\
         echo '{\"agent_type\": \"memgpt_agent\", \"name\": \"Sam\", \"core_memory\": [{\"label\": \"human\", \"value\": \"Name: Ada\"}], \"messages\": []}' > agent.af\n\
         cp chat.jsonl chats\n\
         echo '# Notes' | tee CLAUDE.md > notes/README.md\n\
         memory set k 1 --user other\nmemory export --user other --out backup.jsonl",
    ),
    ("docs/mcp.md", "memory init"),
    ("docs/recall.md", CONVERSATION),
    ("docs/security.md", "memory set note 1 --tenant acme --user ada"),
    ("docs/snapshots.md", "mkdir backups\nmemory set note 1"),
];

const CONVERSATION: &str =
    r#"echo '[{"role": "user", "content": "I bought a red kite"}]' > conversations.json"#;

/// Lines that end with an exit code other than 0, as the page says.
const ENDS: &[(&str, &str, i32)] = &[
    ("docs/cli.md", "memory set plan ", 4),
    ("docs/cli.md", "memory delete greeting ", 4),
    ("docs/cli.md", "memory drift diff", 3),
    ("docs/cli.md", "memory graph clean ", 1),
];

/// Where the pages serve HTTP; the tests take a free port.
const ADDRESS: &str = "127.0.0.1:7077";

/// Precedes the output of each statement.
const MARK: &str = "@@ ";

struct Statement {
    line: String,
    shown: String,
}

/// The statements of a page, with continued lines joined, and the output that the page shows for them: in a session the
/// lines without a prompt, otherwise the comments that start a line.
fn statements(text: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    for block in blocks(text) {
        let session = block.iter().any(|line| line.starts_with("$ "));
        let mut open = false;
        for line in block.into_iter().filter(|line| !line.is_empty()) {
            let output = if session { line.strip_prefix("$ ").is_none() } else { line.starts_with('#') };
            let line = line.strip_prefix(if session { "$ " } else { "# " }).unwrap_or(line);
            match statements.last_mut() {
                Some(last) if open => {
                    last.line += "\n";
                    last.line += line;
                }
                Some(last) if output => {
                    last.shown += line;
                    last.shown += "\n";
                    continue;
                }
                _ => statements.push(Statement { line: line.to_owned(), shown: String::new() }),
            }
            open = line.ends_with('\\') || line.ends_with('|');
        }
    }
    statements
}

fn has_placeholder(line: &str) -> bool {
    let stands_for_something = |word: &String| {
        let value = word.rsplit([':', '=']).next().unwrap_or_default();
        value.len() > 1 && value.chars().all(|character| character.is_ascii_uppercase())
    };
    line.contains('…') || words(line).is_some_and(|words| words.iter().any(stands_for_something))
}

/// Whether `text` matches `shown`, in which `…` stands for anything.
fn fits(shown: &str, text: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|head| text.strip_prefix(head)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A line as it is run: a server goes to the background and ends with the script.
fn runnable(line: &str, address: &str) -> String {
    let line = line.replace(ADDRESS, address);
    let serves = words(&line)
        .is_some_and(|words| words.starts_with(&["memory".into(), "serve".into(), "--http".into()]))
        && !line.contains("--print-config");
    if !serves {
        return line;
    }
    let command = line.split(" #").next().unwrap_or_default().trim_end().trim_end_matches('&').to_owned();
    format!(
        "mkfifo server\n{command} 2> server &\nservers=\"$servers $!\"\nexec 9< server\n\
         while read -r said <&9; do case $said in *'listening on'*) break;; esac; done"
    )
}

/// Runs a page; returns what is wrong with it.
fn run(page: &str, text: &str, used: &mut BTreeSet<usize>) -> Option<String> {
    let user = User::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut script = "set -eu\nservers=\ntrap 'test -z \"$servers\" || kill $servers' EXIT\n".to_owned();
    for (_, given) in GIVEN.iter().filter(|(of, _)| *of == page) {
        writeln!(script, "{given}").unwrap();
    }
    let mut run: Vec<Statement> = Vec::new();
    for statement in statements(text) {
        let line = statement.line.as_str();
        let applies = |of: &str, start: &str| (of.is_empty() || of == page) && line.starts_with(start);
        let excused: Vec<usize> =
            (0..NOT_RUN.len()).filter(|at| applies(NOT_RUN[*at].0, NOT_RUN[*at].1)).collect();
        if has_placeholder(line) || !excused.is_empty() {
            used.extend(excused);
            continue;
        }
        writeln!(script, "echo; echo '{MARK}{}'", run.len()).unwrap();
        let line = runnable(line, &address);
        match ENDS.iter().find(|(of, start, _)| applies(of, start)) {
            Some((_, _, code)) => {
                writeln!(script, "set +e\n{line}\ncode=$?\nset -e\n[ $code = {code} ]").unwrap();
            }
            None => writeln!(script, "{line}").unwrap(),
        }
        run.push(statement);
    }
    if run.is_empty() {
        return None;
    }
    let has_curl = || std::process::Command::new("curl").arg("--version").output().is_ok();
    if script.contains("curl ") && !has_curl() {
        println!("left out: {page} needs curl");
        return None;
    }
    let programs = Path::new(crate::PROGRAM).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = at_home(user.home(), "sh").env("PATH", path).arg("-c").arg(&script).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = stdout.split(&format!("\n{MARK}")).skip(1).collect();
    if !output.status.success() {
        let last = run.get(printed.len().wrapping_sub(1)).map_or("what the test gives it", |last| &last.line);
        return Some(format!("{page}: {last}\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    run.iter().zip(printed).find_map(|(statement, printed)| {
        let printed = printed.split_once('\n').map_or("", |(_, printed)| printed);
        (!statement.shown.is_empty() && !fits(&statement.shown, printed))
            .then(|| format!("{page}: {}\nprints\n{printed}", statement.line))
    })
}

#[test]
fn the_commands_of_every_page_run_and_print_what_it_shows() {
    let mut used = BTreeSet::new();
    let pages = pages();
    let wrong: Vec<String> = pages.iter().filter_map(|(page, text)| run(page, text, &mut used)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let stale: Vec<_> = (0..NOT_RUN.len()).filter(|at| !used.contains(at)).map(|at| NOT_RUN[at]).collect();
    assert!(stale.is_empty(), "no line of a page begins so: {stale:?}");
}
