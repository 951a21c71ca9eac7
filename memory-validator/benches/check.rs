//! What a verdict costs: nanoseconds per statement, by stage. `cargo bench -p memory-validator`.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::hint::black_box;
use std::time::Instant;

use memory_validator::{Dialect, Mode, Policy, Stages, Validator, lab};

const SHORT: &str =
    "SELECT name, email FROM customers WHERE country = ? AND score > 5 ORDER BY name LIMIT 10";

const QUERY: &str = "WITH recent AS (
    SELECT customer_id, sum(amount) AS total, count(*) AS orders
    FROM orders
    WHERE placed_on >= date('now', '-30 days') AND status <> 'void'
    GROUP BY customer_id
    HAVING sum(amount) > 10
), ranked AS (
    SELECT r.*, rank() OVER (ORDER BY total DESC) AS place
    FROM recent AS r
)
SELECT c.name,
       coalesce(c.email, '-') AS email,
       ranked.total,
       CASE WHEN ranked.place <= 3 THEN 'top' WHEN ranked.place <= 10 THEN 'good' ELSE 'other' END AS class,
       json_object('orders', ranked.orders, 'country', c.country) AS detail
FROM ranked
JOIN customers AS c ON c.id = ranked.customer_id
LEFT JOIN notes AS n ON n.customer_id = c.id AND n.tag LIKE 'vip%'
WHERE c.country IN ('DE', 'FR', 'US') AND NOT EXISTS (SELECT 1 FROM blocked AS b WHERE b.id = c.id)
ORDER BY ranked.place, c.name COLLATE NOCASE
LIMIT 20 OFFSET 0";

fn insert() -> String {
    let row = |at: usize| format!("({at}, 'a name of customer {at}', 'mail{at}@example.com', {at}.25)");
    let rows: Vec<String> = (0..500).map(row).collect();
    format!("INSERT INTO customers(id, name, email, score) VALUES {}", rows.join(", "))
}

/// The least of many averages over a few runs: the cost when nothing else wants the processor.
fn nanoseconds(mut run: impl FnMut()) -> u128 {
    let mut average = || {
        let (started, mut times) = (Instant::now(), 0u128);
        while started.elapsed().as_micros() < 300 || times == 0 {
            run();
            times += 1;
        }
        started.elapsed().as_nanos() / times
    };
    (0..1_000).map(|_| average()).min().unwrap_or_default()
}

fn main() {
    let policy = Policy::new(Dialect::Sqlite);
    let insert = insert();
    println!(
        "{:<16}{:>8}{:>12}{:>12}{:>12}{:>12}{:>14}",
        "", "bytes", "lexer", "gate", "+grammar", "+walk", "with thread"
    );
    for (name, sql) in [("short select", SHORT), ("20-line query", QUERY), ("500-row insert", &insert)] {
        let part = |stages: Stages| {
            nanoseconds(|| {
                let verdict = lab::check_here(black_box(sql), Dialect::Sqlite, Mode::Exec, &policy, stages);
                let _ = black_box(verdict);
            })
        };
        let lexer = nanoseconds(|| {
            black_box(lab::tokens(black_box(sql), Dialect::Sqlite));
        });
        let gate = part(Stages { gate: true, grammar: false, walk: false });
        let grammar = part(Stages { gate: true, grammar: true, walk: false });
        let all = part(Stages::ALL);
        let thread = nanoseconds(|| {
            let verdict = Validator::check(black_box(sql), Dialect::Sqlite, Mode::Exec, &policy);
            let _ = black_box(verdict);
        });
        println!("{name:<16}{:>8}{lexer:>12}{gate:>12}{grammar:>12}{all:>12}{thread:>14}", sql.len());
    }
}
