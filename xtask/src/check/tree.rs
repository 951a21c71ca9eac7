//! What each crate may depend on: checked with `cargo tree`, and the layers of the workspace's crates.

use std::collections::BTreeSet;

use crate::workspace::Workspace;
use crate::{Result, process};

/// One feature set of one package, with its required and forbidden normal dependencies.
struct Rule {
    package: &'static str,
    arguments: &'static [&'static str],
    must: &'static [&'static str],
    must_not: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        package: "memory-core",
        arguments: &["--all-features"],
        must: &[],
        must_not: &[
            "tokio",
            "async-std",
            "smol",
            "rusqlite",
            "tokio-postgres",
            "reqwest",
            "hyper",
            "rand",
            "uuid",
        ],
    },
    Rule {
        package: "memory-conformance",
        arguments: &["--all-features"],
        must: &["memory-core"],
        must_not: &["memory", "memory-sqlite", "rusqlite", "tokio-postgres", "reqwest", "hyper"],
    },
    Rule {
        package: "memory-conformance",
        arguments: &["--features", "mutants"],
        must: &["memory-core"],
        must_not: &["memory-governed", "memory-hierarchical"],
    },
    Rule {
        package: "memory-validator",
        arguments: &["--all-features"],
        must: &["sqlparser", "sqlite3-parser", "pg_query"],
        must_not: &[
            "memory-core",
            "tokio",
            "rusqlite",
            "libsqlite3-sys",
            "tokio-postgres",
            "reqwest",
            "hyper",
        ],
    },
    Rule {
        package: "memory-http",
        arguments: &["--all-features"],
        must: &["memory-core", "reqwest", "rustls", "ring"],
        must_not: &["aws-lc-rs", "hickory-resolver", "openssl", "openssl-sys", "native-tls", "rusqlite"],
    },
    Rule {
        package: "memory-mem0",
        arguments: &[],
        must: &["memory-core", "memory-http"],
        must_not: &["memory-mem9", "memory-conformance", "rusqlite", "tokio-postgres", "openssl"],
    },
    Rule {
        package: "memory-mem9",
        arguments: &[],
        must: &["memory-core", "memory-http"],
        must_not: &["memory-mem0", "memory-conformance", "rusqlite", "tokio-postgres", "openssl"],
    },
    Rule {
        package: "memory-remote",
        arguments: &[],
        must: &["memory-core", "memory-http"],
        must_not: &["axum", "memory-conformance", "rusqlite", "tokio-postgres", "openssl"],
    },
    Rule {
        package: "memory-embed",
        arguments: &["--features", "openai"],
        must: &["memory-core", "memory-http"],
        must_not: &["model2vec-rs", "tokenizers", "rusqlite"],
    },
    Rule {
        package: "memory-embed",
        arguments: &["--features", "static"],
        must: &["memory-core", "model2vec-rs"],
        must_not: &[
            "memory-http",
            "reqwest",
            "hyper",
            "hf-hub",
            "indicatif",
            "onig",
            "rusqlite",
            "tokio",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
    },
    Rule {
        package: "memory-governed",
        arguments: &["--all-features"],
        must: &["memory-core"],
        must_not: &[
            "tokio",
            "memory-sqlite",
            "memory-postgres",
            "rusqlite",
            "tokio-postgres",
            "reqwest",
            "hyper",
        ],
    },
    Rule {
        package: "memory-recall",
        arguments: &["--all-features"],
        must: &["memory-core"],
        must_not: &[
            "tokio",
            "memory-sqlite",
            "memory-postgres",
            "rusqlite",
            "tokio-postgres",
            "reqwest",
            "hyper",
        ],
    },
    Rule {
        package: "memory-sql",
        arguments: &["--all-features"],
        must: &["memory-core", "memory-validator"],
        must_not: &["memory-sqlite", "memory-postgres", "rusqlite", "tokio-postgres", "mio"],
    },
    Rule {
        package: "memory-sqlite",
        arguments: &["--all-features"],
        must: &["memory-core", "rusqlite"],
        must_not: &["tokio-postgres", "reqwest", "hyper", "openssl", "openssl-sys", "native-tls"],
    },
    Rule {
        package: "memory-postgres",
        arguments: &["--all-features"],
        must: &["memory-core", "memory-validator", "tokio-postgres", "rustls", "ring"],
        must_not: &[
            "memory-http",
            "reqwest",
            "hyper",
            "rusqlite",
            "aws-lc-rs",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
    },
    Rule {
        package: "memory",
        arguments: &["--no-default-features", "--features", "postgres"],
        must: &["memory-core", "memory-postgres"],
        must_not: &["memory-sqlite", "rusqlite", "reqwest", "hyper"],
    },
    Rule {
        package: "memory",
        arguments: &["--no-default-features", "--features", "mem0"],
        must: &["memory-core", "memory-http", "memory-mem0"],
        must_not: &["memory-mem9", "memory-sqlite", "rusqlite", "tokio-postgres", "openssl", "native-tls"],
    },
    Rule {
        package: "memory",
        arguments: &["--no-default-features", "--features", "mem9"],
        must: &["memory-core", "memory-http", "memory-mem9"],
        must_not: &["memory-mem0", "memory-sqlite", "rusqlite", "tokio-postgres", "openssl", "native-tls"],
    },
    Rule {
        package: "memory",
        arguments: &["--no-default-features"],
        must: &["memory-core"],
        must_not: &[
            "memory-sqlite",
            "memory-validator",
            "rusqlite",
            "libsqlite3-sys",
            "memory-mem0",
            "memory-mem9",
            "tokio-postgres",
            "reqwest",
            "hyper",
        ],
    },
    Rule {
        package: "memory",
        arguments: &[],
        must: &["memory-core", "memory-sqlite", "rusqlite"],
        must_not: &[
            // Only agents' SQL needs these three.
            "memory-sql",
            "memory-validator",
            "sqlparser",
            "tokio-postgres",
            "reqwest",
            "hyper",
            "rmcp",
            "openssl",
            "openssl-sys",
            "native-tls",
        ],
    },
    Rule {
        package: "memory",
        arguments: &["--features", "sql"],
        must: &["memory-sqlite", "memory-validator"],
        must_not: &["tokio-postgres", "reqwest", "hyper"],
    },
    Rule {
        package: "memory",
        arguments: &["--no-default-features", "--features", "embed-static"],
        must: &["memory-core", "memory-embed"],
        must_not: &["memory-http", "reqwest", "hyper", "tokio-postgres", "rusqlite"],
    },
    Rule {
        package: "memory-server",
        arguments: &["--all-features"],
        must: &["memory", "rmcp"],
        must_not: &["memory-conformance", "memory-eval", "openssl", "openssl-sys", "native-tls"],
    },
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
    &["memory-eval"],
    &["memory-server", "prime-stream", "shared-state"],
    &["memory-fuzz", "memory-lab"],
    &["xtask"],
];

/// Checks with `cargo tree` that each feature set has its required dependencies and no forbidden ones.
pub(crate) fn feature_sets(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for rule in RULES {
        let name = format!("{} {}", rule.package, rule.arguments.join(" "));
        let name = name.trim_end();
        if workspace.member(rule.package).is_none() {
            wrong.push(format!("{}: no such member", rule.package));
            continue;
        }
        let mut cargo = workspace.cargo();
        cargo.args(["tree", "--package", rule.package, "--edges", "normal", "--target", "all"]);
        cargo.args(["--prefix", "none", "--format", "{p}"]).args(rule.arguments);
        let tree = process::capture(&mut cargo)?;
        let names = names(&tree);
        println!("{name}: {} crates", names.len());
        let absent = rule.must.iter().filter(|crate_| !names.contains(*crate_));
        wrong.extend(absent.map(|crate_| format!("{name}: does not pull in {crate_}")));
        let present = rule.must_not.iter().filter(|crate_| names.contains(*crate_));
        wrong.extend(present.map(|crate_| format!("{name}: pulls in {crate_}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
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
