//! The words of a plain statement of an end. `plain` reads them; words in none of the lists are not understood.

/// Words for a row that has ended: "is resolved".
pub(in crate::resolve) const ENDED: &str = "resolved closed fixed done complete completed finished solved invalidated superseded lifted dropped \
     revoked withdrawn gone retired rescinded";
/// Words for what somebody did to end it: "fixed it".
pub(in crate::resolve) const ENDING: &str = "resolved closed fixed completed finished solved invalidated lifted dropped revoked withdrew retired \
     rescinded";
/// The same for a change: "this fixes it".
pub(in crate::resolve) const ENDS_NOW: &str = "resolves closes fixes completes finishes solves invalidates";
/// Those that may end a constraint or decision but not an issue: "dropped" may mean given up.
pub(in crate::resolve) const INVALIDATES: &str =
    "invalidated superseded lifted dropped revoked withdrawn withdrew retired rescinded invalidates";
/// Words for something next to the row that is finished.
pub(in crate::resolve) const FINISHED: &str = "resolved closed fixed done complete completed finished solved";
/// Nouns of rows.
pub(in crate::resolve) const KINDS: &str =
    "issue bug blocker problem ticket constraint restriction decision incident id";
/// What a row may be about, and rows themselves.
pub(in crate::resolve) const ROWS: &str = "issue issues bug bugs blocker blockers problem problems ticket tickets incident incidents outage outages \
     failure failures error errors crash crashes leak leaks";
/// More words for what goes wrong.
pub(in crate::resolve) const FAULTS: &str =
    "timeout timeouts latency lag alert alerts warning warnings complaint complaints load";
/// What a fault may do on its own: "the errors increased", "the problem moved".
pub(in crate::resolve) const MOVES: &str = "added changed created enabled extended increased introduced moved raised rebooted restarted split swapped switched";
/// Things that are still in progress while running.
pub(in crate::resolve) const CHECKS: &str = "test tests check checks ci suite pipeline job jobs review";
/// Where something has not ended yet, or not for good.
pub(in crate::resolve) const NOT_YET: &str = "staging local dev demo mock mocks draft experimental beta canary sandbox design old previous bot stale fork";
/// Gerunds of work whose past does not end in "ed".
pub(in crate::resolve) const GERUNDS: &str = "running rerunning making putting setting building rebuilding writing rewriting using splitting \
     cutting letting giving replacing removing reverting retrying limiting avoiding freeing";
/// Work that moves the row itself elsewhere: "by moving it".
pub(in crate::resolve) const GONE: &str = "moving merging splitting removing deleting dropping renaming";
/// Before the name of a row.
pub(in crate::resolve) const ARTICLES: &str = "the this our my";
/// Before any noun.
pub(in crate::resolve) const DETERMINERS: &str =
    "the this our my a an its their his her all both every each these those";
pub(in crate::resolve) const PEOPLE: &str = "i we they he she you";
pub(in crate::resolve) const HAVE: &str = "have has i've we've they've he's she's";
/// What was named before.
pub(in crate::resolve) const IT: &str = "it this that which";
/// How completely, or until when: they change nothing.
pub(in crate::resolve) const ADVERBS: &str = "now finally already completely fully entirely totally just also indeed hereby successfully properly \
     correctly permanently officially definitely certainly 100% today yesterday earlier recently too meanwhile";
/// Words that start a sentence and do not affect what follows.
pub(in crate::resolve) const LEADS: &str = "and so now then finally also ok okay great good news yes yep yay hooray phew done update fyi today yesterday well";
pub(in crate::resolve) const GREETINGS: &str = "hi hello hey";
pub(in crate::resolve) const EVERYONE: &str = "team all everyone folks there you";
/// Words of a label before the writer's own statement: "update: …".
pub(in crate::resolve) const LABELS: &str = "update updates status fyi news good great done fixed resolved closed completed finished solved \
     progress today now summary standup";
/// "I confirm that …".
pub(in crate::resolve) const CONFIRMS: &str = "confirm confirmed verified report announce say";
pub(in crate::resolve) const CHECKED: &str = "checked rechecked tested retested verified reviewed confirmed";
/// What a change is called.
pub(in crate::resolve) const CHANGES: &str =
    "commit pr mr build version release revision rev changeset patch hotfix deploy deployment merge";
pub(in crate::resolve) const BRANCHES: &str = "main master trunk production prod";
pub(in crate::resolve) const LATEST: &str = "the this our latest current last newest new today's yesterday's";
/// Words for something that works.
pub(in crate::resolve) const SOUND: &str =
    "up green healthy stable good fine clean live running working passing ok okay empty fast warm";
/// Verbs of proof, singular and plural.
pub(in crate::resolve) const PROVES: &str = "passes passed works worked succeeds succeeded stopped recovered";
pub(in crate::resolve) const PROVE: &str = "pass work succeed run";
/// Forms of "be", and of what was done to something.
pub(in crate::resolve) const BE: &str = "is are was were has have had got";
/// What was done, for words that do not end in "ed".
pub(in crate::resolve) const DID: &str = "ran made put set built rebuilt wrote rewrote found sent took kept cut did got let split shut gave went \
     began brought had threw held lost grew came seen";
/// Completed work. Excludes taking something away, because that may be the repair.
pub(in crate::resolve) const WORKED: &str = "added adjusted applied bumped cached capped changed checked cleaned cleared closed committed completed \
     configured confirmed converted created debugged deployed diagnosed documented enabled extended extracted finished fixed flushed \
     guarded handled hardened helped implemented improved increased installed integrated introduced investigated lifted merged \
     migrated monitored moved optimized patched pinned profiled published pushed raised rebooted rebuilt reconfigured redeployed \
     reduced refactored reinstalled released renamed repaired ran rerun reran resolved restarted retested reviewed rewrote rotated scaled \
     shipped solved split swapped switched tagged tested traced tuned updated upgraded validated verified warmed watched wired wrapped \
     wrote written";
/// More words of a report of work, where no row is named.
pub(in crate::resolve) const REPORTED: &str = "authored clean consolidated decreased deleted disabled dropped green moved now pass passes removed \
     replaced restored";
/// Words that introduce the means.
pub(in crate::resolve) const MEANS: &str = "by with via using through";
/// Last words of the means by which somebody did it. None expresses a doubt, an open part or a date.
pub(in crate::resolve) const KNOWN_MEANS: &str = "parser logic code script config configuration setting settings index cache driver library \
     dependency retry retries backoff handler server proxy replica schema validation algorithm implementation team ops vendor supplier";
pub(in crate::resolve) const REASONS: &str = "because since as so";
/// What it was done by: "as requested".
pub(in crate::resolve) const REQUESTED: &str = "requested agreed discussed asked expected";
/// Beginnings of a sentence about the cause.
pub(in crate::resolve) const CAUSES: &str = "cause reason root";
pub(in crate::resolve) const THANKS: &str = "thanks thank cheers";
/// Prepositions: what follows them may limit what was done.
pub(in crate::resolve) const PREPOSITIONS: &str = "to on in into for at from of as with without by via using through since until before after over under \
     per during within outside beyond";
pub(in crate::resolve) const WATCHES: &str = "watch monitor observe";
/// Parts of the calendar: "by Friday" is a promise.
pub(in crate::resolve) const TIMES: &str = "monday tuesday wednesday thursday friday saturday sunday january february march april may june july \
     august september october november december end day days week weeks month months year years hour hours minute minutes second \
     seconds deadline tomorrow tonight noon midnight morning evening afternoon weekend eod eow sprint quarter christmas easter time";
/// Words that may change the meaning of what is said around them: denials, doubts, suppositions, promises, hearsay,
/// falsehood, parts of a whole, and that it started again. The lists in `phrases` belong to them too.
pub(in crate::resolve) const TURNING: &str = "but except excepting barring apart aside besides excluding only mostly partly some sometimes several \
     few certain most many otherwise else though although however despite unless until till when whenever while if that who whom \
     whose whoever whether or false untrue true wrong incorrect mistaken mistake withdrawn rejected cancelled canceled aborted backed skipped awaiting upcoming blocked declined \
     discarded abandoned stuck unhappy red lie lies lied lying joke joked joking kidding kid \
     rumor rumors rumour rumours claim claims claimed story stories alleged supposed supposedly allegedly reportedly doubt doubts \
     doubted doubtful dubious sceptical skeptical unlikely pretend pretended imagine imagined imaginary dream dreams dreamt dreamed \
     fantasy wish wishes wished hope hoped hopes expect expects expected goal goals aim aimed target milestone criterion criteria \
     example examples hypothetical hypothetically scenario theory theoretically principle suppose supposing assumption assumptions \
     opposite contrary reverse reversed instead revert reverts reverted reopen reopens reopening reopened open opened opens undo \
     undone rollback regression regressed recurred relapsed returned returns resurfaced reappeared reappears happened occurred \
     appeared started spiked workaround workarounds temporary temporarily tentative tentatively caveat caveats exception exceptions \
     limitation limitations partial incomplete insufficient attempt attempted attempts tried trying try hardly scarcely barely never \
     nobody noone nothing none neither nor no not without near nowhere sarcasm ironically irony quote quoted quoting said says say \
     saying told tell hear heard read reads gathered inferred deduced guessed assumed presumed believed figured reckoned understood \
     sorry oops scratch correction corrected retract retracted disregard ignore ignored forget nicht kein keine nein aber pas ne non \
     jamais mais nunca pero niet geen maar não nao nem wrongly falsely minus save sans bar worse broke breaks fails failed fail \
     crashes hangs flaky unverified unconfirmed untested disputed denied denies deny refused refuted refutes remain persists lingers \
     soon eventually later promised promises will would could should might must shall planned postponed postponing deferred deferring ignoring \
     simulation simulated dry proposed prototype unmerged disabled disabling muted muting mind needed reproduced disagreed objected protested";

/// Marks that ask, in any script.
pub(in crate::resolve) const ASKS: &str = "?؟‽՞፧꘏⸮¿";

/// Whether a word is a part of the calendar.
pub(crate) fn is_time(word: &str) -> bool {
    TIMES.split_whitespace().any(|one| one == word)
}

/// Whether one of these words is about completed work.
pub(in crate::resolve) fn tells_of_work(words: &[String]) -> bool {
    let known =
        |word: &String| [WORKED, REPORTED].iter().any(|list| list.split_whitespace().any(|one| one == word));
    words.iter().any(known)
}
