//! The hazards of state that several agents write, with one case each.

/// A hazard, and the case that shows it does not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hazard {
    /// Its number, the same as in `docs/spec/governed.md`.
    pub number: u32,
    /// What happens, in short.
    pub name: &'static str,
    /// The case.
    pub case: &'static str,
    /// The sentence.
    pub sentence: &'static str,
}

macro_rules! hazards {
    ($($number:literal $case:literal $name:literal;)+) => {
        /// Every hazard.
        pub const HAZARDS: &[Hazard] = &[$(Hazard {
            number: $number,
            name: $name,
            case: $case,
            sentence: concat!("GOV-", stringify!($number)),
        }),+];
    };
}

hazards! {
    1 "gov.plan.replaced-as-a-whole" "the plan: a second row, or an old version";
    2 "gov.constraints.all-their-states" "constraints: one that ended is revived";
    3 "gov.issues.all-their-states" "issues: reopened silently, members lost";
    4 "gov.decisions.all-their-states" "decisions: one overwrites another";
    5 "gov.results.only-added" "results: one overwrites another";
    6 "gov.tasks.all-their-states" "tasks: a state that there is not, or a final one";
    7 "gov.learnings.known-once" "learnings: the same one many times";
    8 "gov.names.unknown" "an unknown id ends its neighbour";
    9 "gov.names.whole-tokens" "issue_1 is taken for issue_10";
    10 "gov.names.of-bucket-and-tenant" "an id of another bucket or tenant";
    11 "gov.words.two-alike" "one of two alike is guessed";
    12 "gov.words.opened-later" "an older note ends a later row";
    13 "gov.words.elimination" "the last candidate is bound by elimination";
    14 "gov.names.mention-is-no-alias" "a name that is merely mentioned becomes an alias";
    15 "gov.names.hints-of-a-model" "a model's hints bind a row";
    16 "gov.speech.commands" "a note commands to end everything";
    17 "gov.authority.tools" "what a tool says ends a row";
    18 "gov.authority.writers" "a writer without authority ends a row";
    19 "gov.speech.negation" "\"not fixed\" ends a row";
    20 "gov.speech.condition" "\"if it is fixed\" ends a row";
    21 "gov.speech.question" "\"is it fixed?\" ends a row";
    22 "gov.speech.quotation" "a quoted end ends a row";
    23 "gov.names.two-ids" "a note that names two rows ends one";
    24 "gov.names.look-alikes" "look-alike letters, case and width of ids";
    25 "gov.limits.floods" "oversized payloads, floods of names";
    26 "gov.ledger.projection-fault" "half a projection stays, or its event is lost";
    27 "gov.ledger.behind-a-fault" "a write overtakes one that failed";
    28 "gov.ledger.rebuild-is-live" "a rebuild gives other tables";
    29 "gov.pending.crash-while-committing" "a crash between event and pending write: two events";
    30 "gov.ledger.same-note-twice" "the same note is written twice";
    31 "gov.race.one-issue" "two pipelines end one issue twice";
    32 "gov.pending.starvation" "writes that cannot be bound starve one that can";
    33 "gov.pending.backoff-and-expiry" "a deferred write is tried without end";
    34 "gov.pending.keeps-its-writer" "a replay is recorded under another writer";
    35 "gov.model.failures" "a failing model loses a note, or ends a wrong row";
    36 "gov.words.stale-mention" "an old mention ends a successor, or revives a row";
    37 "gov.tasks.latest-observation" "a late note overwrites a newer state";
    38 "gov.ledger.edits-and-cuts" "events are changed, removed or cut off unseen";
    39 "gov.ledger.erased-words" "erased words stay, or break the chain";
    40 "gov.words.names-do-not-dilute" "names of a row change the score of its words";
    41 "gov.ledger.rejections" "a rejected note leaves a trace in shared state";
    42 "gov.ledger.second-run" "a second run never marks the new note";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_case_that_proves_its_sentence() {
        let cases = crate::cases::all();
        for (at, hazard) in HAZARDS.iter().enumerate() {
            assert_eq!(hazard.number as usize, at + 1);
            let case = cases.iter().find(|case| case.id == hazard.case);
            assert!(case.is_some_and(|case| case.proves == [hazard.sentence]), "{hazard:?}");
        }
        let is_hazard = |sentence: &&str| HAZARDS.iter().any(|hazard| hazard.sentence == *sentence);
        let about = cases.iter().filter(|case| case.proves.iter().any(is_hazard)).count();
        assert_eq!(about, HAZARDS.len(), "each sentence of a hazard has one case");
    }
}
