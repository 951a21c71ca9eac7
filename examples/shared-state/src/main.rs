//! Three agents, one shared state.
//!
//! A planner and two workers write notes. None of them writes shared state: a pipeline promotes what is certain. A worker
//! notes that "the cache trouble" is fixed while two issues are open. That note waits, and closes nothing. Once the planner
//! says which issue is called so, it is bound, under the worker's own name.
//!
//! ```sh
//! cargo run -p shared-state                      # in memory
//! cargo run -p shared-state -- sqlite:shared.db  # in files; then: memory --url sqlite:shared.db --tenant acme shared
//! ```

use std::process::ExitCode;

use memory::governed::{
    self, Actor, Bucket, Ledger, NoteSource, Outcome, SharedMemory, Trust, WorkingMemory,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite::memory:".to_owned());
    match run(&url).await {
        Ok(()) => ExitCode::SUCCESS,
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

async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let memory = memory::open(url).await?;
    let space = governed::open(&memory, &"acme".parse()?, governed::DEFAULT_SPACE).await?;
    let (notes, shared) = (WorkingMemory::new(&space), SharedMemory::new(&space));
    let pipeline = governed::pipeline(&space);

    for (agent, words) in [
        ("planner", "decision storage: we keep everything in SQLite"),
        ("worker-1", "issue redis_timeout: Redis times out under load"),
        ("worker-2", "issue slow_build: the build takes an hour"),
        ("worker-1", "I wonder what is for lunch"),
        ("worker-1", "the cache trouble is fixed"),
        ("planner", "redis_timeout is also called cache trouble"),
        ("worker-2", "slow_build is fixed"),
    ] {
        // Whom to trust with names and endings of others' rows is the host's to say, never a note's.
        let trust = if agent == "planner" { Trust::Authority } else { Trust::Agent };
        let writer = Actor { agent: agent.to_owned(), run: "run-1".to_owned(), trust };
        notes.note(&writer, NoteSource::Agent, words, None).await?;
        say(&format!("{agent:<9} {words}"));
        while let Some(promotion) = pipeline.promote_one().await? {
            for outcome in promotion.outcomes.iter().chain(&promotion.replayed) {
                say(&format!("          -> {}", told(outcome)));
            }
            if let Some(reason) = promotion.reason {
                say(&format!("          -> left alone: {reason}"));
            }
        }
    }

    let open = shared.bucket(Bucket::Issues, false).await?;
    let why = shared.why(Bucket::Issues, "redis_timeout").await?;
    let by = why.events.last().map(|last| last.event.actor.agent.as_str()).unwrap_or_default();
    say(&format!("{} issues are open; redis_timeout was closed by {by}", open.len()));
    let (verified, rebuilt) = (Ledger::new(&space).verify(None).await?, Ledger::new(&space).rebuild().await?);
    if !rebuilt.agrees() || !open.is_empty() || by != "worker-1" {
        return Err("the shared state is not what the notes say".into());
    }
    say(&format!("{} events hold, and give the same tables again", verified.events));
    Ok(())
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { seq, bucket, target_id, .. } => format!("event {seq}: {bucket} {target_id}"),
        Outcome::Deferred { reason, .. } => format!("waits: {reason}"),
        Outcome::NoOp { reason } => format!("nothing to do: {reason}"),
        Outcome::Rejected { reason } => format!("rejected: {reason}"),
        _ => "done".to_owned(),
    }
}
