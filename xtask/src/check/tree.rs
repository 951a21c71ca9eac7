//! What each crate may depend on: checked with `cargo tree`, and the layers of the workspace's crates.

use std::collections::BTreeSet;

use crate::workspace::Workspace;
use crate::{Result, process};

/// One feature set of one package, and its required and forbidden normal dependencies, in words.
struct Rule(&'static str, &'static str, &'static str, &'static str);

/// Names for several crates in a rule.
const GROUPS: &[(&str, &[&str])] = &[
    ("ENGINES", &["rusqlite", "tokio-postgres"]),
    ("HTTP", &["reqwest", "hyper"]),
    ("OPENSSL", &["openssl", "openssl-sys", "native-tls"]),
];

// Only agents' SQL needs memory-sql, memory-validator and sqlparser.
const RULES: &[Rule] = &[
    Rule("memory-core", "--all-features", "", "tokio async-std smol ENGINES HTTP rand uuid"),
    Rule("memory-conformance", "--all-features", "memory-core", "memory memory-sqlite ENGINES HTTP"),
    Rule("memory-conformance", "--features mutants", "memory-core", "memory-governed memory-hierarchical"),
    Rule(
        "memory-validator",
        "--all-features",
        "sqlparser sqlite3-parser pg_query",
        "memory-core tokio ENGINES libsqlite3-sys HTTP",
    ),
    Rule(
        "memory-http",
        "--all-features",
        "memory-core reqwest rustls ring",
        "aws-lc-rs hickory-resolver OPENSSL rusqlite",
    ),
    Rule("memory-mem0", "", "memory-core memory-http", "memory-mem9 memory-conformance ENGINES OPENSSL"),
    Rule("memory-mem9", "", "memory-core memory-http", "memory-mem0 memory-conformance ENGINES OPENSSL"),
    Rule("memory-remote", "", "memory-core memory-http", "axum memory-conformance ENGINES OPENSSL"),
    Rule("memory-embed", "--features openai", "memory-core memory-http", "model2vec-rs tokenizers rusqlite"),
    Rule(
        "memory-embed",
        "--features static",
        "memory-core model2vec-rs",
        "memory-http HTTP hf-hub indicatif onig rusqlite tokio OPENSSL",
    ),
    Rule(
        "memory-governed",
        "--all-features",
        "memory-core",
        "tokio memory-sqlite memory-postgres ENGINES HTTP",
    ),
    Rule(
        "memory-recall",
        "--all-features",
        "memory-core",
        "tokio memory-sqlite memory-postgres ENGINES HTTP",
    ),
    Rule(
        "memory-sql",
        "--all-features",
        "memory-core memory-validator",
        "memory-sqlite memory-postgres ENGINES mio",
    ),
    Rule("memory-sqlite", "--all-features", "memory-core rusqlite", "tokio-postgres HTTP OPENSSL"),
    Rule(
        "memory-postgres",
        "--all-features",
        "memory-core memory-validator tokio-postgres rustls ring",
        "memory-http HTTP rusqlite aws-lc-rs OPENSSL",
    ),
    Rule(
        "memory",
        "--no-default-features --features postgres",
        "memory-core memory-postgres",
        "memory-sqlite rusqlite HTTP",
    ),
    Rule(
        "memory",
        "--no-default-features --features mem0",
        "memory-core memory-http memory-mem0",
        "memory-mem9 memory-sqlite ENGINES OPENSSL",
    ),
    Rule(
        "memory",
        "--no-default-features --features mem9",
        "memory-core memory-http memory-mem9",
        "memory-mem0 memory-sqlite ENGINES OPENSSL",
    ),
    Rule(
        "memory",
        "--no-default-features",
        "memory-core",
        "memory-sqlite memory-validator ENGINES libsqlite3-sys memory-mem0 memory-mem9 HTTP",
    ),
    Rule(
        "memory",
        "",
        "memory-core memory-sqlite rusqlite",
        "memory-sql memory-validator sqlparser tokio-postgres HTTP rmcp OPENSSL",
    ),
    Rule("memory", "--features sql", "memory-sqlite memory-validator", "tokio-postgres HTTP"),
    Rule(
        "memory",
        "--no-default-features --features embed-static",
        "memory-core memory-embed",
        "memory-http HTTP ENGINES",
    ),
    Rule("memory-server", "--all-features", "memory rmcp", "memory-conformance memory-eval OPENSSL"),
];

/// The workspace's crates by layer, lowest first. A crate may depend only on lower layers, so two backends never depend
/// on each other.
const FLOORS: &[&[&str]] = &[
    &["memory-core", "memory-validator"],
    &["memory-governed", "memory-http", "memory-recall", "memory-sql"],
    &[
        "memory-embed",
        "memory-mem0",
        "memory-mem9",
        "memory-model",
        "memory-postgres",
        "memory-remote",
        "memory-sqlite",
    ],
    &["memory-hierarchical"],
    &["memory-conformance", "memory-ladybug"],
    &["memory", "memory-fakes"],
    &["memory-api", "memory-eval"],
    &["memory-server", "prime-stream", "shared-state"],
    &["memory-fuzz", "memory-lab"],
    &["xtask"],
];

/// Checks with `cargo tree` that each feature set has its required dependencies and no forbidden ones.
pub(crate) fn feature_sets(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for Rule(package, arguments, must, must_not) in RULES {
        let name = format!("{package} {arguments}");
        let name = name.trim_end();
        if workspace.member(package).is_none() {
            wrong.push(format!("{package}: no such member"));
            continue;
        }
        let mut cargo = workspace.cargo();
        cargo.args(["tree", "--package", package, "--edges", "normal", "--target", "all"]);
        cargo.args(["--prefix", "none", "--format", "{p}"]).args(arguments.split_whitespace());
        let tree = process::capture(&mut cargo)?;
        let names = names(&tree);
        println!("{name}: {} crates", names.len());
        let absent = crates(must).filter(|crate_| !names.contains(crate_));
        wrong.extend(absent.map(|crate_| format!("{name}: does not pull in {crate_}")));
        let present = crates(must_not).filter(|crate_| names.contains(crate_));
        wrong.extend(present.map(|crate_| format!("{name}: pulls in {crate_}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// The crates that words name, a group being all of its own.
fn crates(words: &'static str) -> impl Iterator<Item = &'static str> {
    words.split_whitespace().flat_map(|word| {
        let group = GROUPS.iter().find(|(name, _)| *name == word);
        group.map_or_else(|| vec![word], |(_, crates)| crates.to_vec())
    })
}

/// Crate names of `cargo tree --prefix none --format {p}`: the first word of each line.
fn names(tree: &str) -> BTreeSet<&str> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

/// Every dependency between members points down.
pub(crate) fn floors(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for member in &workspace.members {
        let Some(own) = floor(&member.name) else {
            wrong.push(format!("{}: has no floor in xtask/src/check/tree.rs", member.name));
            continue;
        };
        // Tests may point up: a backend's tests run the conformance suite.
        let ours =
            member.dependencies.iter().filter(|d| d.path.is_some() && d.kind.as_deref() != Some("dev"));
        for dependency in ours {
            if floor(&dependency.name).is_none_or(|floor| floor >= own) {
                wrong.push(format!("{} depends on {}, which is not below it", member.name, dependency.name));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_first_word_of_each_line() {
        let tree = "memory v0.1.0 (/somewhere/memory)\nserde v1.0.0\nserde v1.0.0 (*)\nserde_derive v1.0.0 (proc-macro)\n";
        assert_eq!(names(tree), BTreeSet::from(["memory", "serde", "serde_derive"]));
    }

    #[test]
    fn backends_share_a_floor_below_the_suite() {
        assert_eq!(floor("memory-sqlite"), floor("memory-postgres"));
        assert!(floor("memory-sqlite") < floor("memory-conformance"));
        assert!(floor("memory-core") < floor("memory-sqlite"));
        assert_eq!(floor("stranger"), None);
    }
}
