//! The statements of the rows, and the scopes they run in.

use crate::bench::workload::Random;

/// Rows of the table that statements read.
pub(super) const ROWS: usize = 1_000;
/// Connections that stay open between statements.
pub(super) const HANDLES: usize = 1_024;
/// Scopes that fit into them, at two connections each: a writer's and a reader's.
pub(super) const HOT: usize = 400;

/// What one operation of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// One small SELECT, the same text each time.
    Repeated,
    /// One small SELECT, another text each time.
    New,
    /// Validating a query of twenty lines; the floor prepares it.
    Analytic,
    /// Validating an INSERT of 500 rows; the floor prepares it.
    Insert,
    /// A SELECT in one of the scopes whose connections stay open.
    Hit,
    /// A SELECT in the least recently used scope.
    Miss,
    /// A SELECT that goes to one tenth of the scopes nine times out of ten, else to any scope.
    Skewed,
    /// Memory that the engine holds for each connection that stays open.
    Memory,
}

impl Work {
    pub(super) fn is_over_scopes(self) -> bool {
        matches!(self, Self::Hit | Self::Miss | Self::Skewed | Self::Memory)
    }
}

/// Chooses the scope of the next statement.
pub(super) struct ScopeChoice {
    random: Random,
    next: usize,
    scopes: usize,
}

impl ScopeChoice {
    pub(super) fn new(seed: u64, scopes: usize) -> Self {
        Self { random: Random::new(seed), next: 0, scopes }
    }

    pub(super) fn next_scope(&mut self, work: Work) -> usize {
        match work {
            Work::Hit => self.random.below(HOT.min(self.scopes)),
            Work::Miss => {
                self.next = (self.next + 1) % self.scopes;
                self.next
            }
            Work::Skewed if self.random.below(10) > 0 => self.random.below((self.scopes / 10).max(1)),
            _ => self.random.below(self.scopes),
        }
    }
}

/// The statement that most rows run.
pub(super) const SELECT: &str = "SELECT name, score FROM people WHERE id = ?";

pub(super) fn analytic() -> String {
    "WITH monthly AS (\n  SELECT country, strftime('%Y-%m', joined) AS month, count(*) AS n,\n    sum(score) AS total\n  \
     FROM people\n  WHERE joined >= '2020-01-01' AND name NOT LIKE 'x%'\n  GROUP BY country, month\n),\nranked AS (\n  \
     SELECT country, month, n, total,\n    rank() OVER (PARTITION BY country ORDER BY total DESC) AS place,\n    \
     avg(total) OVER (PARTITION BY country ORDER BY month ROWS 2 PRECEDING) AS trend\n  FROM monthly\n)\n\
     SELECT r.country, r.month, r.n, round(r.total, 2) AS total, round(r.trend, 2) AS trend,\n  \
     CASE WHEN r.place = 1 THEN 'best' WHEN r.place < 4 THEN 'good' ELSE 'other' END AS grade\n\
     FROM ranked r\nLEFT JOIN people p ON p.id = r.n\nWHERE r.place <= 12\nORDER BY r.country, r.month\nLIMIT 100"
        .to_owned()
}

pub(super) fn insert() -> String {
    let rows: Vec<String> = (0..500)
        .map(|n| {
            format!(
                "({}, 'somebody number {n}', {n}.5, 'DE', '2024-01-{:02} 10:00:00')",
                100_000 + n,
                n % 28 + 1
            )
        })
        .collect();
    format!("INSERT INTO people (id, name, score, country, joined) VALUES {}", rows.join(", "))
}
