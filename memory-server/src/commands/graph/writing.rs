//! `graph remember` and `graph relate`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use memory::hierarchical::{
    DerivesFrom, Direction, Edge, Episodic, Node, Semantic, SimilarTo, Supersedes, TransitionedTo,
};
use serde_json::json;

use super::Graphs;
use crate::terminal::{Exit, Failure, Out};

#[derive(Args, Debug)]
pub(crate) struct RememberArgs {
    /// What is known, or what happened
    #[arg(required = true)]
    words: Vec<String>,
    /// It happened, instead of being known
    #[arg(long, conflicts_with_all = ["concept", "entity", "confidence"])]
    event: bool,
    /// A short label
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    concept: String,
    /// The entity that it is about
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    entity: String,
    /// How certain it is: 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    confidence: f64,
    /// Of knowledge: the id of the memory that it came from; of an event: its origin, such as `session`
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    source: String,
    /// A tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Its id [default: a new one]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
}

pub(super) async fn remember(graphs: &Graphs, args: RememberArgs, out: &mut Out) -> Result<Exit, Failure> {
    let memory = graphs.memory_of(graphs.agent()?);
    let (words, memory_id) = (args.words.join(" "), args.id.unwrap_or_default());
    let stored = if args.event {
        let node = Episodic { memory_id, tags: args.tags, ..Episodic::new(words, args.source) };
        Node::Episodic(memory.store_episodic(node).await?)
    } else {
        let node = Semantic {
            memory_id,
            confidence: args.confidence,
            source_id: args.source,
            tags: args.tags,
            entity_name: args.entity,
            ..Semantic::new(args.concept, words)
        };
        Node::Semantic(memory.store_semantic(node).await?)
    };
    out.tell(&stored, |out| out.line(format!("remembered: {}", stored.id())))?;
    Ok(Exit::Ok)
}

/// A kind of edge, as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    /// It resembles the other
    SimilarTo,
    /// It was drawn from an event
    DerivesFrom,
    /// It replaces the other
    Supersedes,
    /// It holds the value after a change, the other the one before
    TransitionedTo,
}

#[derive(Args, Debug)]
pub(crate) struct RelateArgs {
    /// The id of the memory where the edge begins
    source: String,
    /// Its kind
    kind: Kind,
    /// The id of the memory where it ends
    target: String,
    /// The weight of `similar_to`, the confidence of `derives_from`: 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE")]
    weight: Option<f64>,
    /// The reason of `supersedes`, the method of `derives_from`, the type of `transitioned_to`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The value before a transition
    #[arg(long, value_name = "TEXT")]
    from_value: Option<String>,
    /// The value after a transition
    #[arg(long, value_name = "TEXT")]
    to_value: Option<String>,
    /// The turn of the conversation in which a value changed
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turn: Option<i64>,
}

impl RelateArgs {
    /// Refuses options that this kind of edge does not have.
    fn check(&self) -> Result<(), Failure> {
        let is_transition = matches!(self.kind, Kind::TransitionedTo);
        let has_weight = matches!(self.kind, Kind::SimilarTo | Kind::DerivesFrom);
        for (option, is_given, is_had) in [
            ("--weight", self.weight.is_some(), has_weight),
            ("--reason", self.reason.is_some(), !matches!(self.kind, Kind::SimilarTo)),
            ("--from-value", self.from_value.is_some(), is_transition),
            ("--to-value", self.to_value.is_some(), is_transition),
            ("--turn", self.turn.is_some(), is_transition),
        ] {
            if is_given && !is_had {
                let kind = self.kind.to_possible_value().map(|kind| kind.get_name().to_owned());
                let kind = kind.unwrap_or_default();
                return Err(Failure::invalid(format!("an edge `{kind}` has no {option}; leave it out")));
            }
        }
        Ok(())
    }
}

/// The existing edge of this kind between these two.
async fn there(graphs: &Graphs, edge: &Edge) -> memory_core::Result<Edge> {
    let (source, target) = edge.ends();
    let from = [source.to_owned()];
    let found = graphs.graphs.edges(&graphs.agent()?, &from, Direction::Outgoing, &[edge.kind()]).await?;
    Ok(found.into_iter().find(|found| found.ends().1 == target).unwrap_or_else(|| edge.clone()))
}

pub(super) async fn relate(graphs: &Graphs, args: RelateArgs, out: &mut Out) -> Result<Exit, Failure> {
    args.check()?;
    let memory = graphs.memory_of(graphs.agent()?);
    let (source_id, target_id) = (args.source, args.target);
    let (weight, reason) = (args.weight.unwrap_or(1.0), args.reason.unwrap_or_default());
    let edge = match args.kind {
        Kind::SimilarTo => Edge::SimilarTo(SimilarTo { source_id, target_id, weight, metadata: json!({}) }),
        Kind::DerivesFrom => Edge::DerivesFrom(DerivesFrom {
            source_id,
            target_id,
            extraction_method: reason,
            confidence: weight,
        }),
        Kind::Supersedes => {
            Edge::Supersedes(Supersedes { source_id, target_id, reason, temporal_delta: String::new() })
        }
        Kind::TransitionedTo => Edge::TransitionedTo(TransitionedTo {
            source_id,
            target_id,
            from_value: args.from_value.unwrap_or_default(),
            to_value: args.to_value.unwrap_or_default(),
            turn: args.turn.unwrap_or_default(),
            transition_type: reason,
        }),
    };
    let is_new = memory.link(edge.clone()).await?;
    let stored = if is_new { edge.clone() } else { there(graphs, &edge).await? };
    out.tell(&json!({ "edge": stored, "is_new": is_new }), |out| match (is_new, stored == edge) {
        (true, _) => out.line("linked"),
        (false, true) => out.line("they were linked so already"),
        (false, false) => {
            let stored = serde_json::to_string(&stored).unwrap_or_default();
            out.line(format!("they were linked already, and that edge stays as it is: {stored}"))
        }
    })?;
    Ok(Exit::Ok)
}
