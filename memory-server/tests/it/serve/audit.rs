//! What the audit says about a connection.

use serde_json::{Value, json};

use crate::serve::client::Place;
use crate::support::store::Kind;
use crate::support::user::has;

#[test]
fn on_postgresql_a_statement_with_question_marks_is_recorded_by_its_kind_and_tables() {
    let place = Place::new();
    let Some(kind) = Kind::postgres(place.path()) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(kind.fresh(place.path()));
    let config = format!(
        "[backends.main]\nurl = {:?}\n[sql]\nenabled = true\n[audit]\nfile = \"audit.jsonl\"\n\
         [default]\nbackend = \"main\"\nagent = \"claude\"\nsql_scopes = [\"agent\"]\n",
        store.url
    );
    place.write("memory.toml", &config);
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "sql_exec", "sql": "CREATE TABLE people (name text)"}));
    client.ok(json!({"op": "sql_exec", "sql": "INSERT INTO people VALUES (?)", "args": ["Ada"]}));
    let query = json!({"op": "sql_query", "sql": "SELECT name FROM people WHERE name=?", "args": ["Ada"]});
    assert_eq!(client.ok(query)["rows"], json!([["Ada"]]));
    let error = client
        .refused(json!({"op": "sql_query", "sql": "SELECT ?, ?,\n?, pg_sleep(?)", "args": [1, 2, 3, 4]}));
    has(&error["details"], json!({"line": 2, "column": 4}));
    client.close();
    let file = std::fs::read_to_string(place.path().join("audit.jsonl")).unwrap();
    let told = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        (record["statement"].as_str().unwrap_or("none").to_owned(), record["tables"].clone())
    };
    let told: Vec<(String, Value)> = file.lines().map(told).collect();
    let people = json!(["people"]);
    assert_eq!(
        told,
        [
            ("create_table".to_owned(), people.clone()),
            ("insert".to_owned(), people.clone()),
            ("select".to_owned(), people),
            ("none".to_owned(), Value::Null),
        ]
    );
}
