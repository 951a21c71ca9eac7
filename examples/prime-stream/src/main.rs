//! Three agents, one memory.
//!
//! The first sieves the first 500 primes and stores them by SQL in its user's database. The second, another run for
//! the same user, reads them, checks each by trial division, writes a table of its own beside them, and reports. The
//! third works for another user and sees none of it. The program fails if a single number is wrong.
//!
//! ```sh
//! cargo run -p prime-stream                      # in memory
//! cargo run -p prime-stream -- sqlite:primes.db  # in files, to look at afterwards
//! ```

mod agent;
mod arithmetic;

use std::process::ExitCode;

use memory::Memory;
use serde_json::{Value, json};

use agent::{Agent, Outcome};

/// How many primes are stored.
const PRIMES: usize = 500;
/// Rows of one INSERT.
const BATCH: usize = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    match Box::pin(run(&url)).await {
        Ok(report) => {
            say(&report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("FAILED: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout, reason = "an example shows what happens")]
fn say(text: &str) {
    println!("{text}");
}

async fn run(url: &str) -> Outcome<String> {
    let memory = memory::open(url).await?;

    let siever = Agent::new(&memory, "siever", "ada", "run-1")?;
    store(&siever).await?;
    say(&format!("siever   for ada: stored the first {PRIMES} primes"));
    siever.leave().await?;

    let checker = Agent::new(&memory, "checker", "ada", "run-2")?;
    let report = check(&checker).await?;
    say(&format!("checker  for ada: {report}"));
    checker.leave().await?;

    let stranger = Agent::new(&memory, "stranger", "bob", "run-3")?;
    look(&stranger).await?;
    say("stranger for bob: no table, and none by the name `primes`");
    stranger.leave().await?;

    // What the first two wrote outlives their runs.
    let (valid, invalid) = count(&memory).await?;
    if (valid, invalid) != (PRIMES, 0) {
        return Err(format!("{valid} valid and {invalid} invalid primes, not {PRIMES} and none").into());
    }
    Ok(format!("{valid} primes checked, {invalid} invalid"))
}

/// Stores the primes in one transaction: another reader sees all of them or none.
async fn store(agent: &Agent) -> Outcome<()> {
    agent.call(json!({"op": "sql_exec", "sql": "DROP TABLE IF EXISTS prime_check"})).await?;
    agent.call(json!({"op": "sql_exec", "sql": "DROP TABLE IF EXISTS primes"})).await?;
    agent
        .call(json!({"op": "sql_exec", "sql": "CREATE TABLE primes (position INTEGER PRIMARY KEY, n INTEGER NOT NULL UNIQUE)"}))
        .await?;
    agent.call(json!({"op": "sql_begin"})).await?;
    let primes = arithmetic::sieve(PRIMES);
    for (batch, numbers) in primes.chunks(BATCH).enumerate() {
        let rows = vec!["(?, ?)"; numbers.len()].join(", ");
        let positions = batch * BATCH + 1..;
        let args: Vec<Value> = positions.zip(numbers).flat_map(|(at, n)| [json!(at), json!(n)]).collect();
        let stored = agent
            .call(json!({"op": "sql_exec", "sql": format!("INSERT INTO primes VALUES {rows}"), "args": args}))
            .await?;
        if stored.get("rows_affected") != Some(&json!(numbers.len())) {
            return Err(format!("{} numbers were sent, and the answer is {stored}", numbers.len()).into());
        }
    }
    agent.call(json!({"op": "sql_commit"})).await?;
    Ok(())
}

/// Reads every number, divides it, and writes what came of it.
async fn check(agent: &Agent) -> Outcome<String> {
    let read =
        agent.call(json!({"op": "sql_query", "sql": "SELECT n FROM primes ORDER BY position"})).await?;
    let numbers = column(&read)?;
    agent
        .call(json!({"op": "sql_exec", "sql": "CREATE TABLE prime_check (n INTEGER PRIMARY KEY REFERENCES primes (n), valid INTEGER NOT NULL)"}))
        .await?;
    agent.call(json!({"op": "sql_begin"})).await?;
    for numbers in numbers.chunks(BATCH) {
        let rows = vec!["(?, ?)"; numbers.len()].join(", ");
        let args: Vec<Value> =
            numbers.iter().flat_map(|n| [json!(n), json!(u8::from(arithmetic::is_prime(*n)))]).collect();
        agent
            .call(json!({"op": "sql_exec", "sql": format!("INSERT INTO prime_check VALUES {rows}"), "args": args}))
            .await?;
    }
    agent.call(json!({"op": "sql_commit"})).await?;
    let report = agent
        .call(json!({"op": "sql_query", "sql": "SELECT count(*), sum(valid), max(p.n) FROM primes p JOIN prime_check c ON c.n = p.n"}))
        .await?;
    let of = |column: usize| report.pointer(&format!("/rows/0/{column}")).cloned().unwrap_or_default();
    Ok(format!("read {}, found {} valid; the largest is {}", of(0), of(1), of(2)))
}

/// Looks for what others stored; finding any of it is an error.
async fn look(agent: &Agent) -> Outcome<()> {
    let about = agent.call(json!({"op": "describe", "scope": "user"})).await?;
    if about.get("tables") != Some(&json!([])) {
        return Err(format!("another user's tables are shown: {about}").into());
    }
    match agent.call(json!({"op": "sql_query", "sql": "SELECT count(*) FROM primes"})).await {
        Ok(answer) => Err(format!("another user's primes are read: {answer}").into()),
        Err(error) if error.to_string().contains("no such table") => Ok(()),
        Err(error) => Err(error),
    }
}

/// Valid and invalid primes, as any later run for the user finds them.
async fn count(memory: &Memory) -> Outcome<(usize, usize)> {
    let later = Agent::new(memory, "auditor", "ada", "run-4")?;
    let question = "SELECT n FROM prime_check WHERE valid = ? ORDER BY n";
    let mut counts = Vec::new();
    for valid in [1, 0] {
        let read = later.call(json!({"op": "sql_query", "sql": question, "args": [valid]})).await?;
        counts.push(column(&read)?.len());
    }
    later.leave().await?;
    match counts.as_slice() {
        [valid, invalid] => Ok((*valid, *invalid)),
        _ => Err("two questions have two answers".into()),
    }
}

/// The numbers of a result with one column.
fn column(answer: &Value) -> Outcome<Vec<u64>> {
    if answer.get("truncated") != Some(&json!(false)) {
        return Err("the answer was cut; ask for less at a time".into());
    }
    let rows = answer.get("rows").and_then(Value::as_array).ok_or("a query answers with rows")?;
    rows.iter()
        .map(|row| row.get(0).and_then(Value::as_u64).ok_or_else(|| format!("{row} is no number").into()))
        .collect()
}
