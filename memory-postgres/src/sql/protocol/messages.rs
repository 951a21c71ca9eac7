//! The server's messages, as far as a session needs them.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use postgres_protocol::Oid;
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Message, RowDescriptionBody};
use tokio_postgres::fallible_iterator::FallibleIterator as _;

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
    /// Whether the server ends the session with it.
    pub(crate) fatal: bool,
}

/// One message.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Everything is answered; `I`, `T` or `E`: outside, within, or in a failed transaction.
    Ready(u8),
    Row(Row),
    /// A row over the limit; it was skipped.
    LongRow,
    Columns(Vec<Column>),
    Parameters(Vec<Oid>),
    /// A command is done, with its tag.
    Done(String),
    /// More rows may follow.
    Suspended,
    Fault(Box<Fault>),
    /// A statement is parsed.
    Parsed,
    /// The server sent a warning.
    Warning,
    /// The server waits for data to copy.
    CopyIn,
    /// The server sends data to copy.
    Copy,
    Other,
}

impl TryFrom<Message> for Reply {
    type Error = io::Error;

    /// Decodes the whole message, since the library's iterators would find errors only later.
    fn try_from(message: Message) -> io::Result<Self> {
        Ok(match message {
            Message::ReadyForQuery(body) => Self::Ready(body.status()),
            Message::DataRow(body) => Self::Row(row(&body)?),
            Message::RowDescription(body) => Self::Columns(columns(&body)?),
            Message::NoData => Self::Columns(Vec::new()),
            Message::ParameterDescription(body) => Self::Parameters(body.parameters().collect()?),
            Message::CommandComplete(body) => Self::Done(body.tag()?.to_owned()),
            Message::EmptyQueryResponse => Self::Done(String::new()),
            Message::PortalSuspended => Self::Suspended,
            Message::ErrorResponse(body) => Self::Fault(Box::new(fault(body.fields())?)),
            Message::ParseComplete => Self::Parsed,
            Message::NoticeResponse(body) if is_warning(body.fields()) => Self::Warning,
            Message::CopyInResponse(_) => Self::CopyIn,
            Message::CopyOutResponse(_) | Message::CopyData(_) | Message::CopyDone => Self::Copy,
            _ => Self::Other,
        })
    }
}

fn row(body: &DataRowBody) -> io::Result<Row> {
    Ok(Row { body: body.buffer_bytes().clone(), values: body.ranges().collect()? })
}

fn columns(body: &RowDescriptionBody) -> io::Result<Vec<Column>> {
    body.fields().map(|field| Ok(Column { name: field.name().to_owned(), oid: field.type_oid() })).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_warning(mut fields: ErrorFields<'_>) -> bool {
    while let Ok(Some(field)) = fields.next() {
        if field.type_() == b'V' {
            return field.value_bytes() == b"WARNING";
        }
    }
    false
}

fn fault(mut fields: ErrorFields<'_>) -> io::Result<Fault> {
    let mut fault = Fault::default();
    while let Some(field) = fields.next()? {
        let value = field.value_bytes();
        match field.type_() {
            b'V' => fault.fatal = value != b"ERROR",
            b'C' => fault.state = text(value),
            b'M' => fault.message = text(value),
            b'n' => fault.constraint = Some(text(value)),
            _ => {}
        }
    }
    Ok(fault)
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut as _, BytesMut};

    use super::*;

    /// Decodes a message from its tag and body; `None` if invalid.
    fn read(tag: u8, body: &[u8]) -> Option<Reply> {
        let mut message = BytesMut::new();
        message.put_u8(tag);
        message.put_u32(u32::try_from(body.len() + 4).unwrap());
        message.put_slice(body);
        Message::parse(&mut message).ok()?.and_then(|message| Reply::try_from(message).ok())
    }

    #[test]
    fn a_row_gives_its_values_and_null() {
        let body = b"\x00\x03\x00\x00\x00\x02ab\xff\xff\xff\xff\x00\x00\x00\x00";
        let Some(Reply::Row(row)) = read(b'D', body) else { panic!("no row") };
        let values: Vec<_> = row.values().collect();
        assert_eq!(values, [Some(&b"ab"[..]), None, Some(&b""[..])]);
    }

    #[test]
    fn a_truncated_message_is_invalid() {
        let whole = b"\x00\x02\x00\x00\x00\x02ab\x00\x00\x00\x05hello";
        for end in 0..whole.len() {
            assert!(read(b'D', &whole[..end]).is_none(), "{end}");
        }
        for tag in *b"TtCEZ" {
            assert!(read(tag, b"").is_none());
        }
        assert!(read(b'E', b"C40001\0Mtold").is_none());
    }

    #[test]
    fn a_warning_is_distinguished_from_a_notice() {
        let read = |body: &[u8]| read(b'N', body);
        assert!(matches!(
            read(b"SWARNUNG\0VWARNING\0C01000\0Mthe wait was cancelled\0\0"),
            Some(Reply::Warning)
        ));
        assert!(matches!(read(b"SNOTICE\0VNOTICE\0C00000\0MWARNING\0\0"), Some(Reply::Other)));
        assert!(matches!(read(b"VWARN"), Some(Reply::Other)));
    }

    #[test]
    fn a_fault_has_its_state() {
        let body = b"SERROR\0VFATAL\0C57P01\0Mterminating\0nt_pkey\0\0";
        let Some(Reply::Fault(fault)) = read(b'E', body) else { panic!("no fault") };
        assert_eq!((fault.state.as_str(), fault.fatal), ("57P01", true));
        assert_eq!(fault.constraint.as_deref(), Some("t_pkey"));
    }
}
