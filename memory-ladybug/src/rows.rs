//! Memories and edges as values of the engine and back.

use lbug::{LogicalType, Value};
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::{
    DerivesFrom, Edge, EdgeKind, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo,
};

/// The values of a row, taken in order. A property that was never set counts as empty.
pub(crate) struct Cells(std::vec::IntoIter<Value>);

impl Cells {
    pub(crate) fn of(row: Vec<Value>) -> Self {
        Self(row.into_iter())
    }

    /// The next value as it is; null after the last.
    pub(crate) fn value(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Null(LogicalType::Any))
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        match self.0.next() {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null(_)) => Ok(String::new()),
            _ => Err(other_type()),
        }
    }

    pub(crate) fn real(&mut self) -> Result<f64> {
        match self.0.next() {
            Some(Value::Double(number)) => Ok(number),
            Some(Value::Null(_)) => Ok(0.0),
            _ => Err(other_type()),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Value::Int64(number)) => Ok(number),
            Some(Value::Null(_)) => Ok(0),
            _ => Err(other_type()),
        }
    }

    pub(crate) fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| other_type())
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self, empty: &str) -> Result<T> {
        let written = self.text()?;
        serde_json::from_str(if written.is_empty() { empty } else { &written }).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a memory's tags or metadata are not the JSON they were given")
                .with_source(error)
        })
    }
}

fn other_type() -> Error {
    Error::new(ErrorKind::Corrupt, "a property of a memory or an edge has another type than it should")
}

pub(crate) fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

/// What no store can keep is refused as the others refuse it.
fn checked(text: &str) -> Result<Value> {
    if text.contains('\0') {
        return Err(Error::invalid("a text of a memory or an edge holds U+0000; remove it"));
    }
    Ok(Value::String(text.to_owned()))
}

pub(crate) fn texts<'a>(all: impl Iterator<Item = &'a str>) -> Value {
    Value::List(LogicalType::String, all.map(text).collect())
}

pub(crate) fn int(number: u64) -> Value {
    Value::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

fn real(number: f64) -> Result<Value> {
    if number.is_nan() {
        return Err(Error::invalid("a number of a memory or an edge is not a number; give one from 0 to 1"));
    }
    Ok(Value::Double(number))
}

fn json(value: &impl serde::Serialize) -> Result<Value> {
    let written = serde_json::to_string(value);
    let written =
        written.map_err(|error| Error::invalid("this cannot be written as JSON").with_source(error))?;
    checked(&written)
}

/// The values of [`SEMANTIC`](crate::cypher::SEMANTIC)'s columns.
pub(crate) fn semantic_values(node: &Semantic) -> Result<Vec<Value>> {
    Ok(vec![
        checked(&node.memory_id)?,
        checked(&node.concept)?,
        checked(&node.content)?,
        real(node.confidence)?,
        checked(&node.source_id)?,
        json(&node.tags)?,
        json(&node.metadata)?,
        checked(&node.created_at)?,
        checked(&node.entity_name)?,
    ])
}

pub(crate) fn read_semantic(cells: &mut Cells) -> Result<Semantic> {
    Ok(Semantic {
        memory_id: cells.text()?,
        concept: cells.text()?,
        content: cells.text()?,
        confidence: cells.real()?,
        source_id: cells.text()?,
        tags: cells.json("[]")?,
        metadata: cells.json("{}")?,
        created_at: cells.text()?,
        entity_name: cells.text()?,
    })
}

/// The values of [`EPISODIC`](crate::cypher::EPISODIC)'s columns.
pub(crate) fn episodic_values(node: &Episodic) -> Result<Vec<Value>> {
    Ok(vec![
        checked(&node.memory_id)?,
        checked(&node.content)?,
        checked(&node.source_label)?,
        json(&node.tags)?,
        json(&node.metadata)?,
        checked(&node.created_at)?,
    ])
}

pub(crate) fn read_episodic(cells: &mut Cells) -> Result<Episodic> {
    Ok(Episodic {
        memory_id: cells.text()?,
        content: cells.text()?,
        source_label: cells.text()?,
        tags: cells.json("[]")?,
        metadata: cells.json("{}")?,
        created_at: cells.text()?,
    })
}

/// The values of an edge's columns, without its ends.
pub(crate) fn edge_values(edge: &Edge) -> Result<Vec<Value>> {
    Ok(match edge {
        Edge::SimilarTo(edge) => vec![real(edge.weight)?, json(&edge.metadata)?],
        Edge::DerivesFrom(edge) => vec![checked(&edge.extraction_method)?, real(edge.confidence)?],
        Edge::Supersedes(edge) => vec![checked(&edge.reason)?, checked(&edge.temporal_delta)?],
        Edge::TransitionedTo(edge) => vec![
            checked(&edge.from_value)?,
            checked(&edge.to_value)?,
            Value::Int64(edge.turn),
            checked(&edge.transition_type)?,
        ],
    })
}

pub(crate) fn read_edge(kind: EdgeKind, cells: &mut Cells) -> Result<Edge> {
    let (source_id, target_id) = (cells.text()?, cells.text()?);
    Ok(match kind {
        EdgeKind::SimilarTo => Edge::SimilarTo(SimilarTo {
            source_id,
            target_id,
            weight: cells.real()?,
            metadata: cells.json("{}")?,
        }),
        EdgeKind::DerivesFrom => Edge::DerivesFrom(DerivesFrom {
            source_id,
            target_id,
            extraction_method: cells.text()?,
            confidence: cells.real()?,
        }),
        EdgeKind::Supersedes => Edge::Supersedes(Supersedes {
            source_id,
            target_id,
            reason: cells.text()?,
            temporal_delta: cells.text()?,
        }),
        EdgeKind::TransitionedTo => Edge::TransitionedTo(TransitionedTo {
            source_id,
            target_id,
            from_value: cells.text()?,
            to_value: cells.text()?,
            turn: cells.int()?,
            transition_type: cells.text()?,
        }),
    })
}

/// The type of a list's rows, which an empty list needs too.
pub(crate) fn row_type(columns: &[&str], is_real: impl Fn(&str) -> bool) -> LogicalType {
    let of = |column: &&str| {
        let kind = if is_real(column) { LogicalType::Double } else { LogicalType::String };
        ((*column).to_owned(), kind)
    };
    LogicalType::Struct { fields: columns.iter().map(of).collect() }
}

pub(crate) fn row(columns: &[&str], values: Vec<Value>) -> Value {
    Value::Struct(columns.iter().map(|column| (*column).to_owned()).zip(values).collect())
}
