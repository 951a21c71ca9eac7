//! CON-1: concurrent histories are explained by one register.

use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{Backend, ErrorKind, Expect, GetOptions, Json, Key, Scope, SetOptions, UpdateOptions};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check};
use crate::cx::{Cx, key};
use crate::harness::executor::BoxFuture;
use crate::linearizability::{Operation, Step, is_linearizable};
use crate::random::Random;

pub(crate) const CASES: &[Case] = &[
    case!("con.linearizable.register" * 4, [Kv, Cas], ["CON-1"], |cx| {
        hammer(cx, &[cx.kv()], true)?;
    }),
    case!("con.linearizable.counter" * 4, [Kv], ["CON-1", "INC-6"], |cx| {
        hammer(cx, &[cx.kv()], false)?;
    }),
    case!("con.linearizable.two-handles" * 2, [Kv, Cas], ["CON-1", "CON-3"], |cx| {
        let other = cx.store().another_handle().await?;
        hammer(cx, &[cx.kv(), other.kv()], true)?;
    }),
];

const THREADS: i64 = 4;
const STEPS: i64 = 10;

/// Several threads work on one key of a fresh scope; their history is checked as a whole.
fn hammer(cx: &Cx, handles: &[&dyn Backend], with_cas: bool) -> CaseResult {
    let scope = cx.scope()?;
    let at = key("register")?;
    let time = AtomicU64::new(0);
    let mut random = cx.random();
    let workers = (0..THREADS)
        .zip(handles.iter().cycle())
        .map(|(thread, &kv)| {
            let worker = Worker { kv, scope: &scope, key: &at, time: &time, thread, with_cas };
            let seed = random.bits();
            Box::pin(worker.work(Random::new(seed))) as BoxFuture<'_, CaseResult<Vec<Operation>>>
        })
        .collect();
    let mut history = Vec::new();
    for operations in cx.threads(workers)? {
        history.extend(operations?);
    }
    history.sort_by_key(|operation| operation.called);
    check!(
        is_linearizable(None, &history),
        "no order of these operations explains their answers:\n{}",
        history
            .iter()
            .map(|Operation { called, returned, step }| format!("{called}..{returned} {step:?}"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    Ok(())
}

struct Worker<'a> {
    kv: &'a dyn Backend,
    scope: &'a Scope,
    key: &'a Key,
    time: &'a AtomicU64,
    thread: i64,
    with_cas: bool,
}

impl Worker<'_> {
    fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    async fn work(self, mut random: Random) -> CaseResult<Vec<Operation>> {
        let mut operations = Vec::new();
        // What this thread last saw: (version, value).
        let mut known: Option<(u64, i64)> = None;
        for step in 0..STEPS {
            // All written values are different, and increments stay below the distance between two: a value identifies
            // its version, so a swap by version is a swap by value.
            let fresh = (self.thread * STEPS + step + 1) * 1_000_000;
            let called = self.tick();
            let step = match random.below(if self.with_cas { 5 } else { 3 }) {
                0 => self.read(&mut known).await?,
                1 => self.write(fresh, &mut known).await?,
                2 => self.add(&mut known).await?,
                _ => self.swap(fresh, &mut known).await?,
            };
            operations.push(Operation { called, returned: self.tick(), step });
        }
        Ok(operations)
    }

    async fn read(&self, known: &mut Option<(u64, i64)>) -> CaseResult<Step> {
        let entry = self.kv.get(self.scope, self.key, GetOptions::default()).await?;
        *known = match &entry {
            None => None,
            Some(entry) => {
                let value = entry.value.as_i64_exact();
                let value = value.ok_or_else(|| Stop::failed("a value was read that was never written"))?;
                Some((entry.version, value))
            }
        };
        Ok(Step::Read(known.map(|(_, value)| value)))
    }

    async fn write(&self, fresh: i64, known: &mut Option<(u64, i64)>) -> CaseResult<Step> {
        let outcome = self.kv.set(self.scope, self.key, Json::from(fresh), SetOptions::default()).await?;
        *known = Some((outcome.version, fresh));
        Ok(Step::Write(fresh))
    }

    async fn add(&self, known: &mut Option<(u64, i64)>) -> CaseResult<Step> {
        let outcome = self.kv.increment(self.scope, self.key, 1, UpdateOptions::default()).await?;
        *known = Some((outcome.version, outcome.value));
        Ok(Step::Add { by: 1, to: outcome.value })
    }

    async fn swap(&self, fresh: i64, known: &mut Option<(u64, i64)>) -> CaseResult<Step> {
        let expect = known.map_or(Expect::Absent, |(version, _)| Expect::Version(version));
        let from = known.map(|(_, value)| value);
        let options = SetOptions::default().with_expect(expect);
        match self.kv.set(self.scope, self.key, Json::from(fresh), options).await {
            Ok(outcome) => {
                *known = Some((outcome.version, fresh));
                Ok(Step::Swap { from, to: fresh })
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                // Read again, or every later swap is refused as well.
                *known = None;
                Ok(Step::SwapRefused { from })
            }
            Err(error) => Err(error.into()),
        }
    }
}
