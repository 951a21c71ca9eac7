//! What notes and models ask of shared state: requests as JSON, the rules, and the resolver.

use memory_core::Timestamp;
use memory_governed::interpret::{Context, Rules};
use memory_governed::resolve::{Resolution, Row, Space, resolve};
use memory_governed::{Actor, Bucket, Decision, Note, NoteSource, Operation, Trust, WriteRequest, is_id};

use crate::support::text;

/// Reads the input as a request, and as a note.
pub fn run(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<WriteRequest>(data) {
        checked(&request);
    }
    let Some(text) = text(data) else { return };
    let space = space();
    if let Decision::Accept(requests) = Rules::decide(text, &Context::of(space.live(), at(10))) {
        for request in &requests {
            request.check().expect("the rules ask for valid writes only");
            resolved(&space, request, text);
        }
    }
    resolved(&space, &WriteRequest::new(Bucket::Issues, Operation::Resolve), text);
}

fn checked(request: &WriteRequest) {
    let written = serde_json::to_string(request).expect("writes");
    let again: WriteRequest = serde_json::from_str(&written).expect("reads what it wrote");
    assert_eq!(again.check().is_ok(), request.check().is_ok());
    if request.check().is_ok() {
        assert!(request.bucket.operations().contains(&request.operation));
        assert!(request.target_id.as_deref().is_none_or(is_id));
        assert!(request.candidate_aliases.len() <= 8 && written.len() < 96 << 10, "{} bytes", written.len());
    }
}

fn resolved(space: &Space, request: &WriteRequest, text: &str) {
    let note = |source, trust| Note {
        id: "n".to_owned(),
        actor: Actor { agent: "ann".to_owned(), run: "r".to_owned(), trust },
        source,
        observed_at: at(10),
        text: text.to_owned(),
    };
    let resolution = resolve(space, request, &note(NoteSource::Agent, Trust::Agent), &[]);
    assert_eq!(resolve(space, request, &note(NoteSource::Agent, Trust::Agent), &[]), resolution);
    if !request.operation.is_lifecycle() {
        return;
    }
    if let Resolution::Bind(binding) = &resolution {
        let row = space.get(request.bucket, &binding.id).expect("a row of the space");
        assert!(row.live && row.opened_at <= at(10) && row.creator == "ann");
    }
    for note in [note(NoteSource::ToolResult, Trust::Person), note(NoteSource::Agent, Trust::Untrusted)] {
        assert!(matches!(resolve(space, request, &note, &[]), Resolution::Defer(_)), "{text:?}");
    }
}

fn at(day: i64) -> Timestamp {
    Timestamp::from_millis_clamped(day * 86_400_000)
}

fn space() -> Space {
    let rows = [
        (Bucket::Issues, "db_outage", "Database outage in the Frankfurt region", "ann", 1, true),
        (Bucket::Issues, "issue_1", "CSV export drops the last column", "ann", 1, true),
        (Bucket::Issues, "issue_10", "Search is slow", "bob", 2, true),
        (Bucket::Issues, "later", "Redis times out", "ann", 20, true),
        (Bucket::Issues, "old", "Lint errors", "ann", 1, false),
        (Bucket::Constraints, "budget", "At most 10 euros a day", "ann", 1, true),
        (Bucket::Decisions, "use_sqlite", "Use SQLite", "ann", 1, true),
    ];
    let mut space = Space::new();
    space.extend(rows.map(|(bucket, id, title, creator, opened, live)| Row {
        id: id.to_owned(),
        bucket,
        title: title.to_owned(),
        description: String::new(),
        opened_at: at(opened),
        ended_at: (!live).then(|| at(opened + 1)),
        live,
        creator: creator.to_owned(),
        owner: None,
        trust: Trust::Agent,
        aliases: vec![format!("the {id} matter")],
    }));
    space
}
