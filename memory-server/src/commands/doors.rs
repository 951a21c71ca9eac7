//! Doors to what other modules measure: `eval` and `bench`.

use super::Context;
use crate::bench::BenchArgs;
use crate::eval_cmd::EvalArgs;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::progress::note;

/// `memory eval`.
pub(crate) async fn eval(context: &Context, args: &EvalArgs, out: &mut Out) -> Result<Exit, Failure> {
    let quiet = context.is_quiet();
    let registry = context.registry()?;
    let mut report = Vec::new();
    crate::eval_cmd::run(args, &registry, out.is_json(), &mut report, &|progress| {
        if !quiet && progress.answered % 100 == 0 {
            note(&format!(
                "{}: {} of {} questions",
                progress.dialogue, progress.answered, progress.questions
            ));
        }
    })
    .await?;
    out.raw_line(String::from_utf8_lossy(&report).trim_end())?;
    Ok(Exit::Ok)
}

/// `memory bench`. Rows are printed as they are measured.
pub(crate) fn bench(args: &BenchArgs, out: &mut Out) -> Result<Exit, Failure> {
    let json = out.is_json();
    tokio::task::block_in_place(|| crate::bench::run(args, json, out.writer()))?;
    Ok(Exit::Ok)
}
