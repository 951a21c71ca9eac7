//! Rows as text for a person.

use memory_core::sql::{Rows, SqlValue};

use crate::terminal::{Failure, Out, printable, width};

/// Bytes of a blob that are shown.
const BLOB_SHOWN: usize = 16;

/// Prints rows under their columns, numbers aligned right, and the row count.
pub(super) fn write(rows: &Rows, out: &mut Out) -> Result<(), Failure> {
    let many = rows.columns.len() > 1;
    let most = out.shown();
    let cut = |text: String| if many { excerpt(&text, most) } else { printable(&text, "\n\t").into_owned() };
    let head: Vec<String> = rows.columns.iter().map(|name| excerpt(name, most)).collect();
    let cells: Vec<Vec<String>> =
        rows.rows.iter().map(|row| row.iter().map(|value| cut(cell(value))).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|name| width(name)).collect();
    for row in &cells {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.lines().map(width).max().unwrap_or(0));
        }
    }
    // A cell with several lines stands alone in its row, and the terminal wraps it.
    let cut = many && out.fit(&mut widths);
    let shown = |row: &[String]| -> Vec<String> {
        match cut {
            true => row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| console::truncate_str(cell, *width, "…").into_owned())
                .collect(),
            false => row.to_vec(),
        }
    };
    let is_number = |column: usize| {
        let mut values =
            rows.rows.iter().filter_map(|row| row.get(column)).filter(|value| **value != SqlValue::Null);
        rows.rows.iter().filter_map(|row| row.get(column)).any(|value| *value != SqlValue::Null)
            && values
                .all(|value| matches!(value, SqlValue::Int(_) | SqlValue::Real(_) | SqlValue::Numeric(_)))
    };
    let right: Vec<bool> = (0..head.len()).map(is_number).collect();
    if !head.is_empty() {
        let line = aligned(&shown(&head), &widths, &right);
        let line = out.bold(&line);
        out.styled(&line)?;
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat((*width).max(1))).collect();
        out.styled(&rules.join("  "))?;
    }
    for row in &cells {
        out.styled(&aligned(&shown(row), &widths, &right))?;
    }
    let count = rows.rows.len();
    let s = if count == 1 { "" } else { "s" };
    if rows.truncated {
        out.line(format!("(the first {count} row{s}; there are more: --max-rows, or LIMIT and OFFSET)"))
    } else {
        out.line(format!("({count} row{s})"))
    }
}

fn cell(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => "NULL".to_owned(),
        SqlValue::Bool(value) => value.to_string(),
        SqlValue::Int(value) => value.to_string(),
        SqlValue::Real(value) => real(*value),
        SqlValue::Numeric(text) | SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => blob(bytes),
        SqlValue::Json(json) => json.as_str().to_owned(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

/// A real as SQL writes it: with a point even if whole.
fn real(value: f64) -> String {
    if value.is_finite() {
        format!("{value:?}")
    } else if value > 0.0 {
        "Infinity".to_owned()
    } else {
        "-Infinity".to_owned()
    }
}

fn blob(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "x'".to_owned();
    for byte in bytes.iter().take(BLOB_SHOWN) {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    if bytes.len() > BLOB_SHOWN {
        let _ = write!(text, "… ({} bytes)", bytes.len());
    }
    text
}

/// The beginning of a text, on one line.
fn excerpt(text: &str, most: usize) -> String {
    let line: String = text.chars().take(most).collect();
    let mut line = printable(&line, "").into_owned();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

fn aligned(cells: &[String], widths: &[usize], right: &[bool]) -> String {
    let mut line = String::new();
    for (index, (cell, widest)) in cells.iter().zip(widths).enumerate() {
        let room = " ".repeat(widest.saturating_sub(width(cell)));
        if index > 0 {
            line.push_str("  ");
        }
        if right.get(index).copied().unwrap_or_default() {
            line.push_str(&room);
            line.push_str(cell);
        } else {
            line.push_str(cell);
            line.push_str(&room);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_say_what_they_hold() {
        for (value, text) in [
            (SqlValue::Null, "NULL"),
            (SqlValue::Real(2.0), "2.0"),
            (SqlValue::Real(f64::NEG_INFINITY), "-Infinity"),
            (SqlValue::Blob(vec![0, 255]), "x'00ff'"),
            (SqlValue::Text("two words".into()), "two words"),
        ] {
            assert_eq!(cell(&value), text);
        }
        assert!(blob(&[7; 100]).ends_with("… (100 bytes)"));
        assert_eq!(excerpt("a\nb\u{1b}[2J", 60), "a\\nb\\u{1b}[2J");
        assert_eq!(excerpt(&"é".repeat(61), 60).chars().count(), 61);
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let line = aligned(&["7".to_owned(), "a".to_owned()], &[3, 4], &[true, false]);
        assert_eq!(line, "  7  a");
    }
}
