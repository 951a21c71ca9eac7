//! What the server says, one message at a time.

use std::ops::Range;

use bytes::{Buf as _, Bytes};

use super::Oid;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) oid: Oid,
}

/// A row whose values are texts.
#[derive(Debug)]
pub(crate) struct Row {
    body: Bytes,
    values: Vec<Option<Range<usize>>>,
}

impl Row {
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.values.iter().map(|range| range.clone().and_then(|range| self.body.get(range)))
    }
}

/// An error that the server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) state: String,
    pub(crate) message: String,
    pub(crate) constraint: Option<String>,
    /// The session ends with it.
    pub(crate) fatal: bool,
}

/// One message.
#[derive(Debug)]
pub(crate) enum Reply {
    /// All that was asked is answered; `I`, `T` or `E`: outside, within, or in a failed transaction.
    Ready(u8),
    Row(Row),
    /// A row longer than was asked for; it was not kept.
    LongRow,
    Columns(Vec<Column>),
    Parameters(Vec<Oid>),
    /// A statement is done; its command tag.
    Done(String),
    /// More rows may follow.
    Suspended,
    Fault(Box<Fault>),
    /// A statement that was named is parsed.
    Parsed,
    /// The server warns of something.
    Warning,
    /// The server waits for data to copy.
    CopyIn,
    /// The server sends data to copy.
    Copy,
    Other,
}

/// Takes a message apart. `None`: it is none.
pub(super) fn read(tag: u8, body: Bytes) -> Option<Reply> {
    Some(match tag {
        b'Z' => Reply::Ready(*body.first()?),
        b'D' => Reply::Row(row(body)?),
        b'T' => Reply::Columns(columns(body)?),
        b'n' => Reply::Columns(Vec::new()),
        b't' => Reply::Parameters(parameters(body)?),
        b'C' => Reply::Done(text(&mut body.clone())?),
        b'I' => Reply::Done(String::new()),
        b's' => Reply::Suspended,
        b'E' => Reply::Fault(Box::new(fault(body)?)),
        b'1' => Reply::Parsed,
        b'N' if is_warning(body.clone()) => Reply::Warning,
        b'G' => Reply::CopyIn,
        b'H' | b'W' | b'd' | b'c' => Reply::Copy,
        _ => Reply::Other,
    })
}

fn row(body: Bytes) -> Option<Row> {
    let mut rest = body.clone();
    let count = usize::from(rest.try_get_u16().ok()?);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let length = rest.try_get_i32().ok()?;
        let Ok(length) = usize::try_from(length) else {
            values.push(None);
            continue;
        };
        let start = body.len() - rest.len();
        if length > rest.len() {
            return None;
        }
        rest.advance(length);
        values.push(Some(start..start + length));
    }
    Some(Row { body, values })
}

fn columns(mut body: Bytes) -> Option<Vec<Column>> {
    let count = body.try_get_u16().ok()?;
    (0..count)
        .map(|_| {
            let name = text(&mut body)?;
            // The table, the column's number in it.
            body.try_get_u32().ok()?;
            body.try_get_u16().ok()?;
            let oid = body.try_get_u32().ok()?;
            // Size, modifier, format.
            body.try_get_u16().ok()?;
            body.try_get_u32().ok()?;
            body.try_get_u16().ok()?;
            Some(Column { name, oid })
        })
        .collect()
}

fn parameters(mut body: Bytes) -> Option<Vec<Oid>> {
    let count = body.try_get_u16().ok()?;
    (0..count).map(|_| body.try_get_u32().ok()).collect()
}

fn text(body: &mut Bytes) -> Option<String> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let text = body.split_to(end);
    body.advance(1);
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn is_warning(mut body: Bytes) -> bool {
    while let Ok(field @ 1..) = body.try_get_u8() {
        match text(&mut body) {
            Some(severity) if field == b'V' => return severity == "WARNING",
            Some(_) => {}
            None => return false,
        }
    }
    false
}

fn fault(mut body: Bytes) -> Option<Fault> {
    let mut fault = Fault::default();
    loop {
        let field = body.try_get_u8().ok()?;
        if field == 0 {
            return Some(fault);
        }
        let value = text(&mut body)?;
        match field {
            b'V' => fault.fatal = value != "ERROR",
            b'C' => fault.state = value,
            b'M' => fault.message = value,
            b'n' => fault.constraint = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_its_values_and_null() {
        let body = Bytes::from_static(b"\x00\x03\x00\x00\x00\x02ab\xff\xff\xff\xff\x00\x00\x00\x00");
        let Some(Reply::Row(row)) = read(b'D', body) else { panic!("no row") };
        let values: Vec<_> = row.values().collect();
        assert_eq!(values, [Some(&b"ab"[..]), None, Some(&b""[..])]);
    }

    #[test]
    fn what_is_cut_off_is_no_message() {
        let whole = b"\x00\x02\x00\x00\x00\x02ab\x00\x00\x00\x05hello";
        for end in 0..whole.len() {
            assert!(read(b'D', Bytes::copy_from_slice(&whole[..end])).is_none(), "{end}");
        }
        for tag in *b"TtCEZ" {
            assert!(read(tag, Bytes::from_static(b"")).is_none());
        }
        assert!(read(b'E', Bytes::from_static(b"C40001\0Mtold")).is_none());
    }

    #[test]
    fn a_warning_is_told_from_a_notice() {
        let read = |body: &'static [u8]| read(b'N', Bytes::from_static(body));
        assert!(matches!(
            read(b"SWARNUNG\0VWARNING\0C01000\0Mthe wait was cancelled\0\0"),
            Some(Reply::Warning)
        ));
        assert!(matches!(read(b"SNOTICE\0VNOTICE\0C00000\0MWARNING\0\0"), Some(Reply::Other)));
        assert!(matches!(read(b"VWARN"), Some(Reply::Other)));
    }

    #[test]
    fn a_fault_tells_its_state() {
        let body = b"SERROR\0VFATAL\0C57P01\0Mterminating\0nt_pkey\0\0";
        let Some(Reply::Fault(fault)) = read(b'E', Bytes::from_static(body)) else { panic!("no fault") };
        assert_eq!((fault.state.as_str(), fault.fatal), ("57P01", true));
        assert_eq!(fault.constraint.as_deref(), Some("t_pkey"));
    }
}
