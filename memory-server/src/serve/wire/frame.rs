//! Parses a line into a message. The arguments of a call stay text: a parsed map would lose spelling, order and digits,
//! and cannot nest as deeply as stored values.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// JSON-RPC 2.0, section 5.1.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// Most bytes of a message other than the arguments of a call. Those parts become parsed maps, many times larger than
/// their text.
pub(crate) const MAX_ENVELOPE_BYTES: usize = 1 << 20;

/// The arguments of a call, unparsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arguments(pub(crate) Arc<str>);

/// The contents of a line.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A message for the service.
    Message(Box<ClientJsonRpcMessage>),
    /// A refusal: the line to answer with.
    Refused(String),
    /// Nothing to do: an empty line.
    Empty,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Distinguishes a `null` id, which is invalid, from an absent one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The parameters of `tools/call` that are used; the others are ignored.
#[derive(Deserialize, Serialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, skip_serializing)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct CallMessage<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    method: &'a str,
    params: CallParams<'a>,
}

/// Reads one line.
pub(crate) fn read(line: &[u8]) -> Frame {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.iter().all(u8::is_ascii_whitespace) {
        return Frame::Empty;
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return refused(PARSE_ERROR, "the message is not UTF-8; send JSON as UTF-8", None);
    };
    // serde would also read a struct from an array.
    if text.trim_start().starts_with('[') {
        return refused(INVALID_REQUEST, "batches are not supported; send one message a line", None);
    }
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => {
            return refused(INVALID_REQUEST, "the line is not a JSON-RPC message", None);
        }
        Err(_) => return refused(PARSE_ERROR, "the line is not JSON; send one message a line", None),
    };
    let id = envelope.id.filter(|id| serde_json::from_str::<RequestId>(id.get()).is_ok());
    if envelope.method.as_deref() == Some("tools/call")
        && envelope.jsonrpc.as_deref() == Some("2.0")
        && let (Some(id), Some(params)) = (id, envelope.params)
    {
        return call(id, params);
    }
    if text.len() > MAX_ENVELOPE_BYTES {
        return too_large(id);
    }
    match serde_json::from_str(text) {
        Ok(message) => Frame::Message(Box::new(message)),
        // Notifications get no answer.
        Err(_) if envelope.id.is_none() && envelope.method.is_some() => Frame::Empty,
        Err(_) => refused(INVALID_REQUEST, "the line is not a JSON-RPC 2.0 message", id),
    }
}

/// Builds a call whose arguments travel outside the parsed message.
fn call(id: &RawValue, params: &RawValue) -> Frame {
    const CODE: i32 = -32602;
    let params = params.get();
    let params = params.starts_with('{').then(|| serde_json::from_str::<CallParams<'_>>(params));
    let Some(Ok(params)) = params else {
        return refused(CODE, "`tools/call` takes an object with `name` and `arguments`", Some(id));
    };
    let arguments = params.arguments.map_or("{}", RawValue::get);
    let arguments = Arguments(Arc::from(arguments));
    let small = CallMessage { jsonrpc: "2.0", id, method: "tools/call", params };
    let text = match serde_json::to_string(&small) {
        Ok(text) if text.len() <= MAX_ENVELOPE_BYTES => text,
        _ => return too_large(Some(id)),
    };
    match serde_json::from_str::<ClientJsonRpcMessage>(&text) {
        Ok(JsonRpcMessage::Request(mut message)) => match &mut message.request {
            ClientRequest::CallToolRequest(request) => {
                request.extensions.insert(arguments);
                Frame::Message(Box::new(JsonRpcMessage::Request(message)))
            }
            _ => refused(CODE, "`tools/call` takes `name`, a string, and `arguments`, an object", Some(id)),
        },
        _ => refused(INVALID_REQUEST, "the line is not a JSON-RPC 2.0 message", Some(id)),
    }
}

fn too_large(id: Option<&RawValue>) -> Frame {
    let why = format!("besides the arguments of a call a message may have {MAX_ENVELOPE_BYTES} bytes");
    refused(INVALID_REQUEST, &why, id)
}

/// The answer to a line over the limit.
pub(crate) fn refuse_long_line(id: Option<&str>, limit: usize) -> String {
    let id = id.and_then(|id| serde_json::from_str(id).ok());
    error_line(INVALID_REQUEST, &format!("the message is over {limit} bytes; send less at a time"), id)
}

fn refused(code: i32, message: &str, id: Option<&RawValue>) -> Frame {
    Frame::Refused(error_line(code, message, id))
}

fn error_line(code: i32, message: &str, id: Option<&RawValue>) -> String {
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'a str,
        id: Option<&'a RawValue>,
        error: Body<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        code: i32,
        message: &'a str,
    }
    let message = Message { jsonrpc: "2.0", id, error: Body { code, message } };
    // Strings, an integer and valid JSON can always be written.
    serde_json::to_string(&message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &[u8]) -> serde_json::Value {
        match read(line) {
            Frame::Refused(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_carried_as_they_came() {
        let arguments =
            r#"{ "op":"set", "value": {"b":1e2,"a":123456789012345678901234567890}, "op":"twice" }"#;
        let line = format!(
            r#"{{"method":"tools/call","params":{{"arguments":{arguments},"name":"memory","_meta":{{"progressToken":5}}}},"jsonrpc":"2.0","id":"x"}}"#
        );
        let Frame::Message(message) = read(line.as_bytes()) else { panic!("no message") };
        let JsonRpcMessage::Request(message) = *message else { panic!("no request") };
        assert_eq!(message.id, RequestId::String("x".into()));
        let ClientRequest::CallToolRequest(call) = message.request else { panic!("no call") };
        assert_eq!(call.params.name, "memory");
        assert_eq!(&*call.extensions.get::<Arguments>().unwrap().0, arguments);
    }

    #[test]
    fn arguments_may_be_as_deep_as_they_like() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"memory","arguments":{deep}}}}}"#
        );
        assert!(matches!(read(line.as_bytes()), Frame::Message(_)));
    }

    #[test]
    fn what_is_no_message_is_refused_by_its_kind() {
        for (line, code) in [
            (b"{".as_slice(), PARSE_ERROR),
            (b"\xff\xfe", PARSE_ERROR),
            (b"hello", PARSE_ERROR),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing", PARSE_ERROR),
            (b"[]", INVALID_REQUEST),
            (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", INVALID_REQUEST),
            (b"7", INVALID_REQUEST),
            (b"null", INVALID_REQUEST),
            (b"{}", INVALID_REQUEST),
            (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", INVALID_REQUEST),
            (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", INVALID_REQUEST),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", INVALID_REQUEST),
        ] {
            let answer = refusal(line);
            assert_eq!(answer["error"]["code"], code, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_refusal_carries_the_id_where_there_is_one() {
        let answer = refusal(br#"{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"arguments":{}}}"#);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&41.into(), &(-32602).into()));
        let line = br#"{"jsonrpc":"2.0","id":40,"method":"tools/call","params":["memory",{}]}"#;
        assert_eq!(refusal(line)["id"], 40);
        let answer = refusal(br#"{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":7}}"#);
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&42.into(), &(-32602).into()));
    }

    #[test]
    fn what_would_become_a_huge_map_is_refused_first() {
        let huge = "[],".repeat(MAX_ENVELOPE_BYTES / 3);
        let line = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{{"x":[{huge}1]}}}}"#);
        assert_eq!(refusal(line.as_bytes())["id"], 3);
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"memory","_meta":{{"x":[{huge}1]}}}}}}"#
        );
        assert_eq!(refusal(line.as_bytes())["id"], 4);
    }

    #[test]
    fn blank_lines_and_unknown_notifications_are_passed_over() {
        assert!(matches!(read(b""), Frame::Empty));
        assert!(matches!(read(b" \t"), Frame::Empty));
    }
}
