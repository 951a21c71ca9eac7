//! Attacks by class, beyond the corpora: what a policy of allow-lists must refuse, by the gate alone and by the tree
//! alone, and what it must accept.

use memory_validator::{Dialect, Mode, Policy, Stages, Verdict, lab};

use crate::support::section;

const GATE: Stages = Stages { gate: true, grammar: false, walk: false };
const TREE: Stages = Stages { gate: false, grammar: true, walk: true };

fn rule(sql: &str, mode: Mode, stages: Stages) -> Option<&'static str> {
    match lab::check_here(sql, Dialect::Sqlite, mode, &Policy::new(Dialect::Sqlite), stages) {
        Verdict::Accepted(_) => None,
        Verdict::Refused(refusal) => Some(refusal.rule),
    }
}

/// The statements of these classes, refused and accepted.
const STATEMENTS: &str = include_str!("../data/sqlite_statements.txt");

fn refused(statements: &[String]) {
    let missed: Vec<String> = statements
        .iter()
        .flat_map(|sql| [(sql, "gate", GATE), (sql, "tree", TREE)])
        .filter(|(sql, _, stages)| rule(sql, Mode::Exec, *stages).is_none())
        .map(|(sql, half, _)| format!("{half}: {sql}"))
        .collect();
    assert!(missed.is_empty(), "accepted:\n{}", missed.join("\n"));
}

/// A test for each class: each half alone refuses its statements, and similar legitimate ones are accepted.
macro_rules! classes {
    ($($class:ident),+) => {
        $(#[test]
        fn $class() {
            let class = stringify!($class).replace('_', " ");
            refused(&section(STATEMENTS, &format!("refused {class}")));
            let alike = format!("accepted {class}");
            if STATEMENTS.contains(&format!("== {alike}\n")) {
                for sql in section(STATEMENTS, &alike) {
                    assert_eq!(rule(&sql, Mode::Exec, Stages::ALL), None, "{sql}");
                }
            }
        })+

        #[test]
        fn every_section_is_tested() {
            let tested = [$(stringify!($class)),+].map(|class| class.replace('_', " "));
            for name in STATEMENTS.lines().filter_map(|line| line.strip_prefix("== ")) {
                if let Some((_, class)) = name.split_once(' ').filter(|(kind, _)| *kind != "other") {
                    assert!(tested.iter().any(|tested| tested == class), "{name}");
                }
            }
        }
    };
}

classes!(
    statements_of_other_kinds,
    a_second_statement,
    names_of_functions_in_any_dress,
    relations_of_the_engine_or_the_runtime,
    temporary_objects_and_other_schemas,
    modules_and_their_options,
    conflicts_that_would_end_the_transaction
);

#[test]
fn functions_wherever_an_expression_stands() {
    let places = section(STATEMENTS, "other places of an expression");
    assert!(places.len() > 90);
    for place in places {
        let fine = place.replace("{}", "lower('x')");
        assert_eq!(rule(&fine, Mode::Exec, Stages::ALL), None, "{fine}");
        refused(
            &["load_extension('x')", "\"Load_Extension\" /* */ ('x')"].map(|call| place.replace("{}", call)),
        );
    }
}

#[test]
fn every_write_in_a_query_is_refused_as_a_write() {
    for sql in &section(STATEMENTS, "other writes") {
        for stages in [GATE, TREE] {
            let policy = Policy::new(Dialect::Sqlite);
            let verdict = lab::check_here(sql, Dialect::Sqlite, Mode::Query, &policy, stages);
            assert!(matches!(&verdict, Verdict::Refused(refusal) if refusal.writes), "{sql}: {verdict:?}");
        }
    }
}

#[test]
fn a_shared_schema_is_read_and_never_written() {
    let policy = Policy::new(Dialect::Sqlite).with_read_only_schema("Shared");
    let decide =
        |sql: &str, stages: Stages| lab::check_here(sql, Dialect::Sqlite, Mode::Exec, &policy, stages);
    for sql in [
        "SELECT * FROM shared.t",
        "INSERT INTO t SELECT * FROM \"SHARED\".t",
        "SELECT shared.t.a FROM shared.t",
    ] {
        assert!(matches!(decide(sql, Stages::ALL), Verdict::Accepted(_)), "{sql}");
    }
    for sql in [
        "INSERT INTO shared.t VALUES (1)",
        "UPDATE shared.t SET a = 1",
        "DELETE FROM shared.t",
        "CREATE TABLE shared.x(a)",
        "DROP TABLE shared.t",
        "ALTER TABLE shared.t RENAME TO x",
        "CREATE INDEX shared.i ON t(a)",
        "DROP TRIGGER shared.g",
        "SELECT * FROM shared._mem_meta",
    ] {
        for stages in [GATE, TREE] {
            assert!(matches!(decide(sql, stages), Verdict::Refused(_)), "{sql}");
        }
    }
}

#[test]
fn a_policy_takes_away_and_gives() {
    let policy = Policy::new(Dialect::Sqlite)
        .without_function("Lower")
        .with_function("mine")
        .with_readable("_mem_public")
        .without_statement(memory_validator::StatementKind::Delete);
    let rule = |sql: &str, stages: Stages| match lab::check_here(
        sql,
        Dialect::Sqlite,
        Mode::Exec,
        &policy,
        stages,
    ) {
        Verdict::Accepted(_) => None,
        Verdict::Refused(refusal) => Some(refusal.rule),
    };
    for stages in [GATE, TREE] {
        assert_eq!(rule("SELECT lower('x')", stages), Some("function"));
        assert_eq!(rule("SELECT mine('x') FROM _mem_public", stages), None);
        assert_eq!(rule("INSERT INTO _mem_public VALUES (1)", stages), Some("reserved"));
        assert_eq!(rule("DELETE FROM t", stages), Some("statement_kind"));
    }
}
