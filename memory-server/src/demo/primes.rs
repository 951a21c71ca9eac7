//! Three agents and one database: the first stores primes using SQL, the second checks them, the third works for
//! another user and sees nothing.

use memory::{Memory, MemoryTool, Policy};
use memory_core::{Error, Result, RunContext, ScopeKind};
use serde_json::{Value, json};

use super::checks::{TENANT, USER, expect, wrong};

/// How many primes are stored.
const PRIMES: usize = 500;
/// A user who shares nothing.
const OTHER_USER: &str = "josef";

/// Stores and checks the primes, then queries as another user. Returns what happened, as text.
pub(super) async fn show(memory: &Memory) -> Result<Vec<String>> {
    let siever = Agent::new(memory, "siever", USER, "primes-1")?;
    for statement in [
        "DROP TABLE IF EXISTS prime_check",
        "DROP TABLE IF EXISTS primes",
        "CREATE TABLE primes (position INTEGER PRIMARY KEY, n INTEGER NOT NULL UNIQUE)",
    ] {
        siever.exec(statement, &[]).await?;
    }
    let primes = sieve(PRIMES);
    siever.call(json!({"op": "sql_begin"})).await?;
    for (batch, numbers) in primes.chunks(100).enumerate() {
        let rows = vec!["(?, ?)"; numbers.len()].join(", ");
        let args: Vec<Value> =
            (batch * 100 + 1..).zip(numbers).flat_map(|(at, n)| [json!(at), json!(n)]).collect();
        siever.exec(&format!("INSERT INTO primes VALUES {rows}"), &args).await?;
    }
    siever.call(json!({"op": "sql_commit"})).await?;
    siever.leave().await?;

    let checker = Agent::new(memory, "checker", USER, "primes-2")?;
    let numbers = checker.numbers("SELECT n FROM primes ORDER BY position").await?;
    expect(numbers.len() == PRIMES, "the second agent reads every number")?;
    let create =
        "CREATE TABLE prime_check (n INTEGER PRIMARY KEY REFERENCES primes (n), valid INTEGER NOT NULL)";
    checker.exec(create, &[]).await?;
    for numbers in numbers.chunks(100) {
        let rows = vec!["(?, ?)"; numbers.len()].join(", ");
        let args: Vec<Value> =
            numbers.iter().flat_map(|n| [json!(n), json!(u8::from(is_prime(*n)))]).collect();
        checker.exec(&format!("INSERT INTO prime_check VALUES {rows}"), &args).await?;
    }
    let valid = checker.numbers("SELECT n FROM prime_check WHERE valid = 1").await?.len();
    let invalid = checker.numbers("SELECT n FROM prime_check WHERE valid = 0").await?.len();
    let largest = checker.numbers("SELECT max(n) FROM primes").await?;
    checker.leave().await?;
    expect(valid == PRIMES && invalid == 0, "every number is prime")?;

    let stranger = Agent::new(memory, "stranger", OTHER_USER, "primes-3")?;
    let about = stranger.call(json!({"op": "describe"})).await?;
    expect(about.get("tables") == Some(&json!([])), "another user has no table")?;
    let refused = stranger.numbers("SELECT n FROM primes").await;
    expect(refused.is_err(), "another user reads no prime")?;
    stranger.leave().await?;

    Ok(vec![
        format!("agent siever, for {USER}: the first {PRIMES} primes in one transaction"),
        format!(
            "agent checker, for {USER}, another run: {valid} valid by trial division, {invalid} invalid; the largest is {}",
            largest.first().copied().unwrap_or_default()
        ),
        format!("agent stranger, for {OTHER_USER}: no table, and none by the name `primes`"),
    ])
}

/// The Memory tool of one run.
struct Agent(MemoryTool);

impl Agent {
    fn new(memory: &Memory, name: &str, user: &str, run: &str) -> Result<Self> {
        let run = RunContext::new(TENANT.parse()?, name.parse()?, run.parse()?).with_user(user.parse()?);
        let policy = Policy::default().with_sql_scopes([ScopeKind::User]);
        MemoryTool::new(memory.clone(), policy, run).map(Self)
    }

    /// Like a model's call: JSON in, JSON out.
    async fn call(&self, mut call: Value) -> Result<Value> {
        if let Some(call) = call.as_object_mut() {
            call.insert("scope".to_owned(), "user".into());
        }
        let answer = self.0.try_call(&call.to_string()).await?;
        serde_json::from_str(&answer)
            .map_err(|error| Error::internal("the tool's answer is not JSON").with_source(error))
    }

    async fn exec(&self, sql: &str, args: &[Value]) -> Result<()> {
        self.call(json!({"op": "sql_exec", "sql": sql, "args": args})).await.map(drop)
    }

    /// The first column of a query.
    async fn numbers(&self, sql: &str) -> Result<Vec<u64>> {
        let answer = self.call(json!({"op": "sql_query", "sql": sql})).await?;
        let rows = answer.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        rows.iter()
            .map(|row| row.get(0).and_then(Value::as_u64).ok_or_else(|| wrong("a prime is not a number")))
            .collect()
    }

    async fn leave(self) -> Result<()> {
        let run = self.0.run();
        self.0.memory().end_run(&run.tenant, &run.root_run).await
    }
}

/// The first primes, by crossing out multiples.
fn sieve(count: usize) -> Vec<usize> {
    let mut primes = Vec::new();
    let mut limit = 16;
    while primes.len() < count {
        limit *= 2;
        let mut composite = vec![false; limit];
        primes.clear();
        for candidate in 2..limit {
            if composite.get(candidate) == Some(&false) {
                primes.push(candidate);
                for multiple in composite.iter_mut().skip(candidate * candidate).step_by(candidate) {
                    *multiple = true;
                }
            }
        }
    }
    primes.truncate(count);
    primes
}

fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| !n.is_multiple_of(divisor))
}
