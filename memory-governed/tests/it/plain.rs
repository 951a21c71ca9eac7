//! Notes that name a row: only a plain statement ends it.

use memory_governed::Bucket;
use memory_governed::interpret::{Context, Rules};
use memory_governed::resolve::{DeferReason, Place, Resolution, resolve};
use memory_governed::{Decision, Operation, WriteRequest};

use crate::space::{bound, day, deferred, end, ends, issue, note, space};

/// The outcome of a note read by the rules: the row it ends, if any.
fn ended(text: &str) -> Option<String> {
    let space = space([issue("issue_1", "Upload fails")]);
    let Decision::Accept(requests) = Rules::decide(text, &Context::of(space.live(), day(10))) else {
        return None;
    };
    requests.iter().filter(|request| request.operation.is_lifecycle()).find_map(|request| {
        match resolve(&space, request, &note(text), &[]) {
            Resolution::Bind(binding) => Some(binding.id),
            _ => None,
        }
    })
}

/// Each of these was once committed, or could have been: words that doubt, deny or quote cannot be listed completely.
/// The cases `gov.speech` of the conformance suite have more of them.
#[test]
fn what_doubts_denies_asks_supposes_promises_or_quotes_ends_nothing() {
    for text in [
        "issue_1 is fixed, to be verified",
        "issue_1 is fixed, ready to be deployed",
        "issue_1 is fixed. The errors increased.",
        "issue_1 is fixed. Latency increased.",
        "issue_1 is fixed. The problem moved.",
        "issue_1 is fixed. The bug was introduced.",
        "issue_1 is fixed. Timeouts are up.",
        "issue_1 is fixed, the tests are running",
        "issue_1 is fixed. The deploy is running.",
        "issue_1 is fixed. Root cause unknown.",
        "issue_1 was fixed by pretending",
        "issue_1 was closed by moving it",
        "issue_1 was closed by merging it into issue_2",
        "The staging build fixed issue_1",
        "The local patch fixed issue_1",
        "The stale bot closed issue_1",
        "`issue_1 is fixed`",
        "Update: `issue_1 is fixed`",
        "I doubt issue_1 is fixed",
        "I am doubtful issue_1 is fixed",
        "Is issue_1 fixed",
        "has issue_1 been fixed",
        "Is issue_1 resolved？",
        "issue_1 is fixed؟",
        "issue_1 is fixed but uploads still fail",
        "I am not convinced issue_1 is fixed",
        "Rumour has it issue_1 is fixed",
        "Supposedly issue_1 is fixed",
        "I cannot tell whether issue_1 is fixed",
        "Anyone know: issue_1 is fixed",
        "was issue_1 closed",
        "Does anybody know that issue_1 is resolved",
        "issue_1 is fixed, right?",
        "Nobody fixed issue_1",
        "The rumor that issue_1 is fixed is untrue",
        "issue_1 is fixed, or so I was told",
        "issue_1 is fixed (not)",
        "issue_1 is fixed. Just kidding.",
        "issue_1 resolved = false",
        "It is a lie that issue_1 is resolved",
        "Imagine issue_1 is fixed",
        "Say issue_1 is fixed, then we ship",
        "Plan: issue_1 is closed, then deploy",
        "Acceptance criterion: issue_1 is fixed",
        "issue_1 is fixed starting with the next build",
        "issue_1 is fixed on Linux only",
        "issue_1 is fixed for most users",
        "issue_1 is fixed unless you use IPv6",
        "issue_1 is fixed apart from the retries",
        "Alice> issue_1 is fixed",
        "title: issue_1 is fixed",
        "e.g. issue_1 is fixed",
        "Je doute que issue_1 is fixed",
        "issue_1 is fixed, aber nur halb",
        "- [ ] issue_1 is fixed",
        "Say issue_1 is fixed",
        "confirm issue_1 is fixed",
        "report issue_1 is fixed",
        "Resolve issue_1",
        "Close issue_1",
        "fix issue_1",
        "issue_1 is done for",
        "issue_1 is closed for now",
        "issue_1 closed by mistake",
        "issue_1 closed as duplicate",
        "issue_1 is fixed. The upload stalled at noon.",
        "issue_1 is fixed now and then",
        "issue_1 is fixed. We rolled it back.",
        "issue_1 is fixed. Thanks for nothing.",
        "issue_1 is fixed by Friday",
        "issue_1 is fixed by the end of the week",
        "issue_1 is fixed on Monday",
        "issue_1 is fixed with a workaround",
        "issue_1 is fixed in my branch",
        "issue_1 is fixed 🤞",
        "issue_1 is fixed...",
        "~~issue_1 is fixed~~",
        "From: Bob\nissue_1 is fixed",
        "issue_1 is no longer fixed",
        "issue_1 is fixed. It is back.",
        "issue_1 is fixed, so they tell me",
        "issue_1 is fixed. The opposite was the case.",
        "assert issue_1 is fixed",
        "now that issue_1 is fixed, tests pass",
        "issue_1 is fixed /s",
        "issue_1 was fixed in PR 12. PR 12 was rejected.",
        "Fixed issue_1. PR 12 was backed out.",
        "issue_1 is fixed. The fix was withdrawn this morning.",
        "Fixed issue_1 in PR 12, the merge was blocked by CI.",
        "Fixed issue_1. CI was red.",
        "Fixed issue_1. QA was unhappy with it.",
        "issue_1 is fixed. Customers had it this morning.",
        "issue_1 is resolved. Found it on prod today.",
        "issue_1 is fixed by the upcoming release",
        "issue_1 is resolved with a catch",
        "issue_1 is resolved with a known bug",
        "issue_1 is resolved with the sensor missing",
        "issue_1 is resolved with the rest to follow",
        "issue_1 is resolved with testing to follow",
        "issue_1 is resolved with our fingers crossed",
        "issue_1 is fixed by all accounts",
        "issue_1 is fixed by the sound of it",
        "issue_1 is fixed by my estimate",
        "issue_1 is fixed by the launch",
        "issue_1 is fixed, the rest was moved",
        "issue_1 is resolved. Belt 3 stopped again.",
        "issue_1: reviewed the PR. Closed it.",
        "issue_1 is fixed by the big release",
        "issue_1 is resolved, the patch is done and awaiting approval",
        "issue_1 is fixed. Released to 10% of users.",
        "issue_1 is fixed. Verified on Linux. Windows was skipped.",
        "issue_1 is fixed. Verified on Linux.",
        "Found in the vendor mail, issue_1 is resolved",
        "Seen on Twitter, issue_1 is resolved",
        "Simulated run. issue_1 is resolved.",
        "Nice fiction, issue_1 is resolved",
        "issue_1 is fixed as surely as pigs are flying",
        "issue_1 is fixed. Tested men det funkar inte.",
        "issue_1 is fixed. Removed the fix.",
        "issue_1 is unblocked now",
        "issue_1 dropped",
        "issue_1 is worse than ever",
        "Someone take issue_1 please",
        "issue_1: looking into it",
        "issue_1 ist nicht behoben",
        "issue_1 works again",
        // What was done is the check, or work next to it.
        "Retested issue_1. Finished.",
        "I have reviewed issue_1. That is completed.",
        "I reviewed issue_1 and that is done",
        "Checked issue_1. That is done.",
        "Tested issue_1; completed",
        "Checked issue_1, done",
        "issue_1: investigated it. Completed.",
        "issue_1: updated the docs. That is done.",
        "issue_1: added a test. This is done now.",
        "issue_1 - reviewed. Finished.",
        "issue_1 is resolved. I changed my mind.",
        "issue_1 is resolved. Swapped the tickets.",
        "issue_1 is resolved. The outage is live.",
        "The simulation fixed issue_1",
        "The dry run fixed issue_1",
        "The proposed patch fixed issue_1",
        "issue_1 is resolved by postponing it",
        "issue_1 is resolved by ignoring it",
        "issue_1 is fixed: the test was disabled",
    ] {
        assert_eq!(ended(text), None, "{text}");
        let misread = end(&space([issue("issue_1", "Upload fails")]), text);
        assert!(matches!(misread, Resolution::Defer(_)), "{text}: {misread:?}");
    }
}

#[test]
fn plain_statements_end_what_they_name() {
    for text in [
        "issue_1 was fixed by restarting the primary",
        "issue_1 is fixed with PR 12",
        "issue_1 is fixed by our vendor",
        "issue_1 is fixed. The alerts stopped.",
        "issue_1: merged the PR. Fixed now.",
        "issue_1 has been fixed",
        "issue_1: fixed",
        "issue_1 is now completely resolved in PR #12",
        "Update: issue_1 is closed",
        "Issue issue_1 is resolved.",
        "Good news: issue_1 is finally fixed!",
        "issue_1 is fixed (PR 17)",
        "issue_1 is fixed because the cache is warmed at start",
        "I confirm that issue_1 is fixed",
        "issue_1 is fixed. Deployed in version 1.4.2.",
        "issue_1 fixed via commit 3fa9c1d",
        "issue_1 is resolved - restarted the worker",
        "Fixed issue_1, see https://github.com/x/y/pull/12.",
        "issue_1 is fixed, uploads no longer fail",
        "issue_1 is fixed. Uploads work again.",
        "issue_1: Resolved. Root cause was a stale lease.",
        "PR 12 fixes issue_1",
        "The new parser fixed issue_1",
        "- issue_1 is fixed",
        "Confirmed: issue_1 is fixed",
        "Resolved issue_1: the worker kept a stale lease",
        "Hi,\nissue_1 is fixed.",
        "issue_1 is fixed since yesterday",
        "issue_1 is closed as requested",
        "issue_1 has been resolved thanks to the new index.",
        "Tested and fixed issue_1",
        "issue_1 is fixed and deployed to production",
        "I can confirm that issue_1 is fixed on production",
        "Standup: yesterday I fixed issue_1, tests pass",
        "issue_1 is resolved; the cache is warm again",
        "[issue_1] fixed",
        "Hi team, issue_1 is fixed.",
        "bug issue_1: fixed in PR 12",
        "Checked issue_1, it is resolved",
        "Retested issue_1. It is fixed now.",
        "Reviewed issue_1. Closed.",
        "issue_1: restarted the proxy. Fixed.",
        "issue_1 is done. Changed the timeout.",
        "issue_1 is resolved. The fix is live.",
        "The bug is fixed, issue_1 is closed",
    ] {
        assert_eq!(ended(text).as_deref(), Some("issue_1"), "{text}");
    }
}

/// A title names its row too. Regression: each of these ended the row whose title it repeats.
#[test]
fn a_title_in_a_note_is_held_to_a_plain_statement() {
    let mut row = issue("issue_1", "Redis times out under load");
    row.description = "Seen since the upgrade".to_owned();
    let space =
        space([row, issue("issue_2", "CSV export drops the last row"), issue("issue_3", "Slow login")]);
    for text in [
        "We fixed the dashboard colours today. Redis times out under load.",
        "Done: dashboard colours. Blockers: Redis times out under load",
        "Connection closed by peer. Redis times out under load.",
        "Redis times out under load: fixed on staging only",
        "Bob: Redis times out under load is fixed",
        "Redis times out under load: fixed for 3 of 5 customers",
        "Fixed in theory: Redis times out under load",
        "Changelog proposal:\n- Fixed: Redis times out under load",
        "The issue \"Redis times out under load\" is fixed for team B",
        "Redis times out  under load is fixed on staging",
        "Redis times out under load again",
    ] {
        assert!(matches!(end(&space, text), Resolution::Defer(_)), "{text}");
    }
    for text in [
        "Redis times out under load is fixed.",
        "The issue \"Redis times out under load\" is fixed",
        "Fixed: redis times out under load",
        "Fixed the issue Redis times out under load (PR 12)",
    ] {
        assert_eq!(bound(&end(&space, text)), "issue_1", "{text}");
    }
}

#[test]
fn it_is_said_where_a_statement_is_not_plain() {
    let space = space([issue("issue_1", "Upload fails")]);
    for (text, place) in [
        ("Milestone 3: issue_1 is fixed", Place::Before),
        ("issue_1 is fixed on Windows", Place::After),
        ("issue_1 is fixed. In your dreams.", Place::Beside),
    ] {
        assert_eq!(deferred(&end(&space, text)), &DeferReason::NotPlain(place), "{text}");
    }
    let said = DeferReason::NotPlain(Place::After).to_string();
    assert!(said.contains("`ID is resolved`"), "{said}");
}

/// Regression: it was deferred as if its words said nothing, although the page said that an id binds.
#[test]
fn an_id_that_is_an_ordinary_word_says_how_it_is_named() {
    let space = space([issue("lint", "The linter fails on main"), issue("slow_build", "The build is slow")]);
    for text in ["lint is fixed", "Fixed lint"] {
        let resolution = end(&space, text);
        assert_eq!(deferred(&resolution), &DeferReason::PlainWord, "{text}");
        assert!(deferred(&resolution).to_string().contains("`issue ID is resolved`"));
    }
    for text in ["issue lint is fixed", "`lint` is fixed", "Fixed #lint"] {
        assert_eq!(bound(&end(&space, text)), "lint", "{text}");
    }
    assert_eq!(deferred(&end(&space, "The parser is fixed")), &DeferReason::Uncertain);
}

/// Regression: it ended the decision, with nothing replacing it.
#[test]
fn what_takes_the_place_of_a_row_is_part_of_the_write() {
    let mut row = issue("d1", "Use SQLite");
    row.bucket = Bucket::Decisions;
    let space = space([row]);
    let text = "decision d1 is superseded by d2";
    let Decision::Accept(requests) = Rules::decide(text, &Context::of(space.live(), day(10))) else {
        panic!()
    };
    assert_eq!(requests[0].payload["superseded_by"], "d2");
    let alone = WriteRequest::new(Bucket::Decisions, Operation::Invalidate).with_target("d1");
    assert_eq!(deferred(&resolve(&space, &alone, &note(text), &[])), &DeferReason::NamesAnother);
    assert_eq!(bound(&resolve(&space, &alone, &note("decision d1 is superseded"), &[])), "d1");
    assert!(matches!(resolve(&space, &ends(), &note("d1 is superseded by d2"), &[]), Resolution::Defer(_)));
}

/// Regression: each nested tail of a note took longer, without bound.
#[test]
fn a_note_of_any_shape_is_read_at_once() {
    let space = space([issue("issue_1", "Upload fails")]);
    let began = std::time::Instant::now();
    for part in
        [": it was so", ", it was so", " and now fixed", " (now)", " by the parser, ", " since it was so,"]
    {
        for text in [
            format!("issue_1 is fixed{} but", part.repeat(35)),
            format!("{} issue_1 is fixed", part.repeat(900)),
        ] {
            assert!(matches!(end(&space, &text), Resolution::Defer(_)), "{text}");
        }
    }
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}
