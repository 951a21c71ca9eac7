//! What the operations on shared state and graphs answer, for the description of the API: the tool writes these answers member by
//! member, within its limits. Tests of `memory-server` compare them with real replies.

use memory::StateOp;
use serde_json::{Map, Value, json};

/// The schema of an operation's answer.
pub(super) fn of(op: StateOp) -> Value {
    let (text, whether, count) = (json!({"type": "string"}), json!({"type": "boolean"}), count());
    match op {
        StateOp::Note => object(
            &[
                ("note_id", text.clone()),
                ("status", one_of(&["kept", "done", "later", "rejected", "unknown"])),
                ("outcomes", list(&outcome())),
            ],
            &[("reason", text)],
        ),
        StateOp::Promote => {
            let counted = ["notes", "committed", "deferred", "no_ops", "rejected", "retried"];
            object(&counted.map(|name| (name, count.clone())), &[])
        }
        StateOp::Shared => object(&[("rows", list(&row())), ("truncated", whether)], &[("next", text)]),
        StateOp::Why => object(
            &[
                ("row", json!({"anyOf": [row(), {"type": "null"}]})),
                ("events", list(&event())),
                ("dependents", list(&named())),
                ("truncated", whether),
            ],
            &[],
        ),
        StateOp::Pending => {
            let listed = object(&[("pending", list(&deferred())), ("truncated", whether)], &[]);
            json!({"anyOf": [listed, outcome()], "description": "The writes that wait, or what became of the one that was bound"})
        }
        StateOp::Reject => outcome(),
        StateOp::ForgetShared => object(
            &[
                ("dry_run", whether.clone()),
                ("rows", list(&named())),
                ("changed", list(&named())),
                ("notes", count.clone()),
                ("events", count.clone()),
                ("pending", count),
                ("truncated", whether),
            ],
            &[],
        ),
        StateOp::Verify => {
            let anchor = object(&[("seq", count.clone()), ("hash", text)], &[]);
            object(&[("events", count.clone()), ("erased", count), ("anchor", anchor)], &[])
        }
        StateOp::Remember => object(&[("memory_id", text.clone()), ("created_at", text)], &[]),
        StateOp::Relate => object(&[("is_new", whether)], &[]),
        StateOp::RecallGraph => object(&[("hits", list(&hit())), ("truncated", whether)], &[]),
        StateOp::Neighbours => {
            let beside = object(&[("edge", of_kind(&EDGES)), ("node", of_kind(&NODES))], &[]);
            object(&[("neighbours", list(&beside)), ("total", count), ("truncated", whether)], &[])
        }
        StateOp::GraphStats => {
            let counted = [
                "semantic_node_count",
                "episodic_node_count",
                "similar_to_edge_count",
                "derives_from_edge_count",
                "supersedes_edge_count",
                "transitioned_to_edge_count",
                "revision",
            ];
            object(&counted.map(|name| (name, count.clone())), &[])
        }
        StateOp::Sessions => {
            let session =
                object(&["session_id", "created_at", "last_accessed"].map(|name| (name, text.clone())), &[]);
            let kept = ["id", "session_id", "agent_id", "memory_type", "title", "content"];
            let mut entry = object(&kept.map(|name| (name, text.clone())), &[]);
            entry["additionalProperties"] = json!(true);
            object(&[("truncated", whether)], &[("sessions", list(&session)), ("entries", list(&entry))])
        }
        _ => json!({"type": "object"}),
    }
}

/// The kinds of memories, and of edges.
const NODES: [&str; 2] = ["semantic", "episodic"];
const EDGES: [&str; 4] = ["SIMILAR_TO", "DERIVES_FROM", "SUPERSEDES", "TRANSITIONED_TO"];

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn time() -> Value {
    json!({"$ref": "#/components/schemas/Timestamp"})
}

fn bucket() -> Value {
    json!({"$ref": "#/components/schemas/BucketWord"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn or_null(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

/// An object with these members, and perhaps with those.
fn object(always: &[(&str, Value)], perhaps: &[(&str, Value)]) -> Value {
    let members: Map<_, _> =
        always.iter().chain(perhaps).map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    let required: Vec<_> = always.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": members, "required": required, "additionalProperties": false})
}

/// Something that has the `kind`, and what belongs to it.
fn of_kind(kinds: &[&str]) -> Value {
    json!({"type": "object", "properties": {"kind": one_of(kinds)}, "required": ["kind"]})
}

/// The whole, or of what alone exceeds the answer, the id.
fn or_large(whole: Value, id: &str, beside: &[(&str, Value)]) -> Value {
    let large = [(id, json!({"type": "string"})), ("omitted_bytes", count())];
    json!({"anyOf": [whole, object(&[&large[..], beside].concat(), &[])]})
}

fn named() -> Value {
    object(&[("bucket", bucket()), ("id", json!({"type": "string"}))], &[])
}

fn scored() -> Value {
    list(&object(
        &[("id", json!({"type": "string"})), ("rev", count()), ("score", json!({"type": "number"}))],
        &[],
    ))
}

/// Rows that a deferred write offers.
fn offered() -> Value {
    let text = json!({"type": "string"});
    list(&object(
        &[("id", text.clone()), ("rev", count()), ("score", json!({"type": "number"}))],
        &[("status", text.clone()), ("title", text)],
    ))
}

fn actor() -> Value {
    let text = json!({"type": "string"});
    object(&["agent", "run", "trust"].map(|name| (name, text.clone())), &[])
}

fn outcome() -> Value {
    let text = json!({"type": "string"});
    object(
        &[("outcome", one_of(&["committed", "deferred", "no_op", "rejected"]))],
        &[
            ("seq", count()),
            ("bucket", bucket()),
            ("target_id", text.clone()),
            ("projection", one_of(&["applied", "recorded", "failed", "blocked"])),
            ("pending_id", text.clone()),
            ("reason", text),
            ("candidates", offered()),
        ],
    )
}

fn row() -> Value {
    let text = json!({"type": "string"});
    let whole = object(
        &[
            ("id", text.clone()),
            ("status", text.clone()),
            ("fields", json!({"type": "object"})),
            ("rev", count()),
            ("created_by", text.clone()),
            ("observed_at", time()),
            ("valid_from", time()),
        ],
        &[("valid_to", time()), ("superseded_by", text.clone()), ("aliases", list(&text))],
    );
    or_large(whole, "id", &[])
}

fn event() -> Value {
    let text = json!({"type": "string"});
    let whole = object(
        &[
            ("seq", count()),
            ("operation", text.clone()),
            ("by", actor()),
            ("observed_at", time()),
            ("recorded_at", time()),
            ("note", or_null("string")),
            ("payload", json!({"type": "object"})),
            ("reason", text.clone()),
            ("interpreter", text.clone()),
            ("resolver", text.clone()),
            ("projection", text),
        ],
        &[("candidates", scored()), ("reviewed_by", actor())],
    );
    or_large(whole, "id", &[])
}

fn deferred() -> Value {
    let text = json!({"type": "string"});
    let whole = object(
        &[
            ("id", text.clone()),
            ("status", text.clone()),
            ("agent", text.clone()),
            ("note", or_null("string")),
            ("reason", text.clone()),
            ("candidates", offered()),
            ("observed_at", time()),
            ("expires_at", time()),
        ],
        &[("bucket", bucket()), ("operation", text)],
    );
    or_large(whole, "id", &[])
}

fn hit() -> Value {
    let (text, whether) = (json!({"type": "string"}), json!({"type": "boolean"}));
    let step = object(
        &[("kind", one_of(&EDGES)), ("from", text.clone()), ("to", text), ("is_forward", whether.clone())],
        &[],
    );
    let rank = [("score", json!({"type": "number"})), ("superseded", whether)];
    let whole = object(&[&rank[..], &[("memory", of_kind(&NODES))]].concat(), &[("path", list(&step))]);
    or_large(whole, "memory_id", &rank)
}
