//! Places in a text: sqlparser's lines and columns as bytes.

use sqlparser::tokenizer::Location;

use crate::verdict::Position;

/// Converts lines and columns to bytes, for places in ascending order.
pub(super) struct Offsets<'s> {
    rest: std::str::CharIndices<'s>,
    length: usize,
    line: u64,
    column: u64,
}

impl<'s> Offsets<'s> {
    pub(super) fn new(sql: &'s str) -> Self {
        Self { rest: sql.char_indices(), length: sql.len(), line: 1, column: 1 }
    }

    pub(super) fn offset(&mut self, place: Location) -> usize {
        loop {
            let here = self.rest.clone().next();
            let Some((at, character)) = here else { return self.length };
            if (self.line, self.column) >= (place.line, place.column) {
                return at;
            }
            self.rest.next();
            if character == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
    }
}

/// A place that sqlparser counts by lines and columns.
pub(crate) fn position(sql: &str, place: Location) -> Position {
    Position::of(sql, Offsets::new(sql).offset(place))
}
