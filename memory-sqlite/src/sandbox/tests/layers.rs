//! Which layer stops what on its own. `docs/sql.md`, "Layers", has the table.

use std::time::{Duration, Instant};

use memory_validator::Mode;

use super::{Layers, Role, TestDatabase};

/// A class of attack: the attempts, and the layers each of which stops them all on its own.
struct Class {
    name: &'static str,
    setup: &'static str,
    attacks: &'static [(Mode, &'static str)],
    alone: &'static [&'static str],
}

use Mode::{Exec, Query};

const BASE: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x'); \
    CREATE INDEX t_b ON t(b); \
    CREATE TABLE _mem_meta(k, v); INSERT INTO _mem_meta VALUES ('quota', 1); \
    CREATE VIRTUAL TABLE ft USING fts5(body); INSERT INTO ft VALUES ('hello');";

const CLASSES: &[Class] = &[
    Class {
        name: "attach",
        setup: "",
        attacks: &[
            (Exec, "ATTACH 'BESIDE' AS x"),
            (Exec, "ATTACH (SELECT 'BESIDE') AS x"),
            (Exec, "ATTACH ':memory:' AS x"),
            (Exec, "VACUUM INTO 'BESIDE.copy'"),
        ],
        alone: &["authorizer", "limits"],
    },
    Class {
        name: "load_extension",
        setup: "",
        attacks: &[
            (Query, "SELECT load_extension('/tmp/x.so')"),
            (Query, "SELECT load_extension('/tmp/x.so', 'f')"),
        ],
        // The engine is also opened without the right to load extensions.
        alone: &["authorizer", "functions"],
    },
    Class {
        name: "write in a query",
        setup: "",
        attacks: &[
            (Query, "UPDATE t SET b = 'p'"),
            (Query, "DELETE FROM t RETURNING a"),
            (Query, "WITH x AS (SELECT 1) INSERT INTO t(b) SELECT 'p' FROM x"),
            (Query, "CREATE TABLE z(a)"),
            (Query, "DROP TABLE t"),
            (Query, "REINDEX t"),
        ],
        alone: &["authorizer", "readonly"],
    },
    Class {
        name: "schema write",
        setup: "",
        attacks: &[
            (Exec, "DELETE FROM sqlite_master"),
            (Exec, "UPDATE main.sqlite_schema SET sql = ''"),
            (Exec, "INSERT INTO sqlite_schema(type) VALUES ('x')"),
        ],
        // With `writable_schema` on, as if a pragma had slipped through: see the test below.
        alone: &["authorizer", "config"],
    },
    Class {
        name: "tables of virtual tables",
        setup: "",
        attacks: &[
            (Exec, "UPDATE ft_data SET block = x'00'"),
            (Exec, "DELETE FROM ft_config"),
            (Exec, "DROP TABLE ft_idx"),
        ],
        alone: &["authorizer", "config"],
    },
    Class {
        name: "the runtime's tables",
        setup: "CREATE VIEW nv AS SELECT 1 AS a; CREATE TRIGGER iv INSTEAD OF INSERT ON nv \
                BEGIN INSERT INTO _mem_meta VALUES ('x', 'y'); END; CREATE VIEW leak AS SELECT * FROM _mem_meta;",
        attacks: &[
            (Exec, "UPDATE _mem_meta SET v = 0"),
            (Query, "SELECT v FROM _MEM_meta"),
            (Exec, "INSERT INTO nv VALUES (1)"),
            (Query, "SELECT * FROM leak"),
        ],
        alone: &["authorizer"],
    },
    Class {
        name: "pragma",
        setup: "",
        attacks: &[
            (Exec, "PRAGMA foreign_keys = OFF"),
            (Exec, "PRAGMA max_page_count = 4294967294"),
            (Query, "SELECT * FROM pragma_database_list"),
        ],
        alone: &["authorizer"],
    },
    Class {
        name: "transaction",
        setup: "",
        attacks: &[(Exec, "COMMIT"), (Exec, "ROLLBACK"), (Exec, "SAVEPOINT s")],
        alone: &["authorizer"],
    },
    Class {
        name: "rollback by conflict",
        setup: "CREATE TABLE rb(a UNIQUE ON CONFLICT ROLLBACK); INSERT INTO rb VALUES (1); \
                CREATE TABLE rt(a); CREATE TRIGGER rr BEFORE INSERT ON rt BEGIN SELECT RAISE(ROLLBACK, 'no'); END;",
        attacks: &[
            (Exec, "INSERT OR ROLLBACK INTO t VALUES (1, 'dup')"),
            (Exec, "INSERT INTO rb VALUES (1)"),
            (Exec, "INSERT INTO rt VALUES (1)"),
        ],
        alone: &["config"],
    },
    Class {
        name: "temporary objects",
        setup: "",
        attacks: &[
            (Exec, "CREATE TEMP TABLE x(a)"),
            (Exec, "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END"),
            (Exec, "CREATE TRIGGER temp.x AFTER INSERT ON main.t BEGIN SELECT 1; END"),
            (Exec, "CREATE VIEW temp.x AS SELECT 1"),
            (Exec, "CREATE INDEX temp.x ON t(a)"),
        ],
        alone: &["authorizer"],
    },
    Class {
        name: "modules",
        setup: "",
        attacks: &[
            (Exec, "CREATE VIRTUAL TABLE v USING dbstat(main)"),
            (Exec, "CREATE VIRTUAL TABLE v USING fts3tokenize"),
            (Query, "SELECT * FROM dbstat"),
        ],
        alone: &["authorizer", "config"],
    },
    Class {
        name: "functions of the engine",
        setup: "",
        attacks: &[(Query, "SELECT fts3_tokenizer('simple')"), (Query, "SELECT sqlite_log(1, 'x')")],
        alone: &["authorizer", "functions"],
    },
    Class {
        name: "several statements",
        setup: "",
        attacks: &[(Exec, "SELECT 1; DROP TABLE t"), (Exec, "SELECT 1\0; DROP TABLE t")],
        // Only the first statement is ever compiled; this needs no layer.
        alone: &[],
    },
    Class {
        name: "endless work",
        setup: "",
        attacks: &[(
            Query,
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c",
        )],
        alone: &["deadline"],
    },
    Class {
        name: "large values",
        setup: "",
        attacks: &[
            (Query, "SELECT length(zeroblob(900000000)||'')"),
            (Query, "SELECT length(printf('%.*c', 900000000, 'x'))"),
        ],
        alone: &["limits", "heap"],
    },
    Class {
        name: "growth",
        setup: "",
        attacks: &[(
            Exec,
            "INSERT INTO t(b) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 300000) \
                           SELECT hex(randomblob(50)) FROM c",
        )],
        alone: &["quota"],
    },
];

fn attempt(class: &Class, layers: Layers) -> Vec<&'static str> {
    let mut through = Vec::new();
    for (mode, sql) in class.attacks {
        let database = TestDatabase::new();
        database.load(BASE);
        database.load(class.setup);
        let mut database = database.with_layers(layers);
        database.quota = Some(8 << 20);
        database.timeout = Duration::from_millis(500);
        let before = database.dump();
        let text = sql.replace("BESIDE", &database.folder().join("beside").display().to_string());
        let ran = match mode {
            Mode::Exec if text.starts_with("VACUUM") => {
                database.run(&mut database.writer(), *mode, &text, &[])
            }
            Mode::Exec => database.exec(&text, &[]),
            Mode::Query => database.run(&mut database.open(Role::Reader), *mode, &text, &[]),
        };
        let lost = ran.as_ref().is_err_and(|error| error.kind() == memory_core::ErrorKind::TransactionLost);
        // When short of space or time, SQLite itself may roll everything back.
        let matters = class.name.contains("transaction") || class.name.contains("rollback");
        if ran.is_ok() || lost && matters || database.dump() != before {
            through.push(*sql);
        }
    }
    through
}

#[test]
fn each_class_is_stopped_by_each_of_its_layers_alone() {
    for class in CLASSES {
        for layer in class.alone {
            let through = attempt(class, Layers::only(layer).unwrap());
            assert!(through.is_empty(), "{}: `{layer}` alone lets through {through:?}", class.name);
        }
        let through = attempt(class, Layers::ALL);
        assert!(through.is_empty(), "{}: all layers let through {through:?}", class.name);
    }
}

/// What the rule of one statement per call stops, it stops without any layer.
#[test]
fn only_one_statement_is_ever_compiled() {
    let class = CLASSES.iter().find(|class| class.name == "several statements").unwrap();
    assert_eq!(attempt(class, Layers::NONE), Vec::<&str>::new());
}

/// If the attacks failed anyway, the table would prove nothing.
#[test]
fn without_layers_the_attacks_succeed() {
    let by_themselves = ["load_extension", "schema write", "several statements", "endless work"];
    for class in CLASSES.iter().filter(|class| !by_themselves.contains(&class.name)) {
        let through = attempt(class, Layers::NONE);
        assert!(!through.is_empty(), "{}", class.name);
    }
}

/// As if a pragma had slipped through: the authorizer alone protects the schema.
#[test]
fn the_authorizer_protects_a_writable_schema() {
    let database = TestDatabase::new();
    database.load(BASE);
    let database = database.with_layers(Layers::only("authorizer").unwrap());
    let class = CLASSES.iter().find(|class| class.name == "schema write").unwrap();
    for (mode, sql) in class.attacks {
        let mut writer = database.writer();
        writer
            .with_runtime_rights(|conn| {
                conn.execute_batch("PRAGMA writable_schema = ON").unwrap();
                Ok(())
            })
            .unwrap();
        let error = database.run(&mut writer, *mode, sql, &[]).unwrap_err();
        assert_eq!(error.kind(), memory_core::ErrorKind::StatementRefused, "{sql}: {error}");
        assert_eq!(error.details()["layer"], "authorizer", "{sql}");
    }
}

#[test]
fn memory_is_bounded_for_the_statement_alone() {
    let mut database = TestDatabase::new().with_layers(Layers::only("heap").unwrap());
    database.config.heap_bytes = 8 << 20;
    let began = Instant::now();
    let mut reader = database.open(Role::Reader);
    let sql = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 2000000) SELECT count(*) FROM \
               (SELECT x FROM c ORDER BY random())";
    let error = database.run(&mut reader, Mode::Query, sql, &[]).unwrap_err();
    assert_eq!(
        (error.kind(), &error.details()["layer"]),
        (memory_core::ErrorKind::TooLarge, &"heap".into()),
        "{error}"
    );
    assert!(reader.last_peak_bytes() <= 8 << 20, "{}", reader.last_peak_bytes());
    assert!(reader.last_peak_bytes() > 4 << 20, "{}", reader.last_peak_bytes());
    // The connection still works.
    assert!(database.run(&mut reader, Mode::Query, "SELECT 1", &[]).is_ok());
    println!("{:?}", began.elapsed());
}

/// Growth is refused in the middle of a statement, and deleting stays possible.
#[test]
fn at_its_quota_a_scope_can_delete_its_way_out() {
    let mut database = TestDatabase::new();
    database.quota = Some(1 << 20);
    let mut writer = database.writer();
    database.run(&mut writer, Mode::Exec, "CREATE TABLE t(a INTEGER PRIMARY KEY, b)", &[]).unwrap();
    let fill = "INSERT INTO t(b) VALUES (randomblob(20000))";
    let refused = std::iter::repeat_with(|| database.run(&mut writer, Mode::Exec, fill, &[]))
        .find_map(Result::err)
        .unwrap();
    assert_eq!(refused.kind(), memory_core::ErrorKind::QuotaExceeded);
    assert!(writer.usage().unwrap() <= 1 << 20);
    // Lowering the quota deletes nothing.
    writer.set_quota(Some(64 << 10));
    assert!(database.run(&mut writer, Mode::Exec, fill, &[]).is_err());
    let cancel = super::Cancel::default();
    let statement = super::Statement {
        sql: "DELETE FROM t",
        args: &[],
        mode: Mode::Exec,
        deadline: Instant::now() + Duration::from_secs(5),
        max_rows: 1,
        max_bytes: 1,
        frees: true,
        cancel: &cancel,
    };
    assert!(writer.run(&statement).unwrap().rows_affected > 10);
    assert!(writer.usage().unwrap() < 64 << 10, "{}", writer.usage().unwrap());
    assert!(database.run(&mut writer, Mode::Exec, fill, &[]).is_ok());
}
