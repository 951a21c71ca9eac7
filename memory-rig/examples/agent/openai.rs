//! A stand-in for a language model: a local server that speaks OpenAI's HTTP API, and answers by rules.

#![allow(clippy::indexing_slicing, reason = "a member that a JSON value lacks is null")]

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Most bytes of a request.
const MAX_REQUEST: usize = 1 << 20;

/// The status and the body that answer a request's body.
pub(crate) type Rules = fn(&Value) -> (u16, Value);

/// Serves until the runtime ends; returns the base URL.
pub(crate) async fn serve(rules: Rules) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, rules));
        }
    });
    Ok(url)
}

async fn answer(mut stream: TcpStream, rules: Rules) -> std::io::Result<()> {
    let body = request_body(&mut stream).await?;
    let (status, reply) = rules(&serde_json::from_slice(&body)?);
    let reply = reply.to_string();
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.len()
    );
    stream.write_all((head + &reply).as_bytes()).await
}

async fn request_body(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_REQUEST && stream.read_buf(&mut bytes).await? > 0 {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let body = bytes.get(end + 4..).unwrap_or_default();
        if body.len() >= length.unwrap_or(0) {
            return Ok(body.to_vec());
        }
    }
    Err(std::io::ErrorKind::UnexpectedEof.into())
}

/// Calls the tool `memory` for a prompt, and repeats what it answered. `Remember: …` is stored, a JSON object is passed on as it is,
/// and anything else is searched for. Without tools, it repeats the messages that it was sent.
pub(crate) fn completion(request: &Value) -> (u16, Value) {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let last = messages.last().unwrap_or(&Value::Null);
    let (text, tool) = (text_of(last), &request["tools"][0]["function"]["name"]);
    let message = if last["role"] == "tool" {
        json!({"role": "assistant", "content": format!("The memory says {text}")})
    } else if tool == "memory" {
        let arguments = match text.strip_prefix("Remember: ") {
            Some(note) => json!({"op": "set", "key": "note", "value": note}).to_string(),
            None if text.starts_with('{') => text,
            None => json!({"op": "search", "query": text, "top_k": 1}).to_string(),
        };
        let call =
            json!({"id": "call-1", "type": "function", "function": {"name": tool, "arguments": arguments}});
        json!({"role": "assistant", "content": null, "tool_calls": [call]})
    } else {
        let sent = messages.iter().map(text_of).collect::<Vec<_>>().join(" | ");
        json!({"role": "assistant", "content": format!("<{sent}>")})
    };
    let reason = if message["tool_calls"].is_null() { "stop" } else { "tool_calls" };
    let reply = json!({
        "id": "completion-1", "object": "chat.completion", "created": 1, "model": "local",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    });
    (200, reply)
}

/// The text of a message, whose content is text or a list of parts.
fn text_of(message: &Value) -> String {
    let content = &message["content"];
    let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().map_or_else(|| parts.collect::<Vec<_>>().join("\n"), str::to_owned)
}
