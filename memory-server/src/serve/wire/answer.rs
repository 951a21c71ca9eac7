//! Serializes a message to its line. The tool's answer is already JSON, so it is copied unparsed into the line, both as
//! structured content and as text.

use std::io;

use rmcp::model::{CallToolResult, ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult};

/// The line of a message, with its line end.
pub(crate) fn line(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = match message {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::CallToolResult(result) => {
                let mut line = br#"{"jsonrpc":"2.0","id":"#.to_vec();
                serde_json::to_writer(&mut line, &response.id)?;
                line.extend_from_slice(br#","result":"#);
                answered(&mut line, result)?;
                line.push(b'}');
                line
            }
            _ => serde_json::to_vec(message)?,
        },
        _ => serde_json::to_vec(message)?,
    };
    line.push(b'\n');
    Ok(line)
}

/// A result. If its only text is a JSON object, that becomes its structured content too.
fn answered(line: &mut Vec<u8>, result: &CallToolResult) -> io::Result<()> {
    serde_json::to_writer(&mut *line, result)?;
    let (None, [ContentBlock::Text(text)]) = (&result.structured_content, result.content.as_slice()) else {
        return Ok(());
    };
    // File answers are plain text.
    if !text.text.starts_with('{') {
        return Ok(());
    }
    if line.pop() != Some(b'}') {
        return Err(io::Error::other("the tool's result is not a JSON object"));
    }
    line.extend_from_slice(br#","structuredContent":"#);
    // A stored value keeps its white space; inside strings, line breaks are escaped.
    line.extend(text.text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    line.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;

    use super::*;

    fn line_of(text: &str) -> String {
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        let id = RequestId::String("7\"\n".into());
        let message = ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id);
        String::from_utf8(line(&message).unwrap()).unwrap()
    }

    #[test]
    fn an_answer_stands_in_the_line_digit_for_digit_and_in_order() {
        let text = r#"{"value":{"b":1.10,"a":123456789012345678901234567890}}"#;
        let line = line_of(text);
        assert!(line.contains(&format!(r#""structuredContent":{text}"#)), "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["result"]["content"][0]["text"], text);
        assert_eq!((&parsed["id"], &parsed["result"]["isError"]), (&"7\"\n".into(), &false.into()));
    }

    #[test]
    fn a_value_written_over_several_lines_stays_in_one() {
        let line = line_of("{\"value\":{\r\n  \"a\": \"x\\ny\"\n}}");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with('\n'));
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["result"]["structuredContent"]["value"]["a"], "x\ny");
    }

    #[test]
    fn words_are_no_structured_content() {
        let line = line_of("The file /memories/{a} has been edited.");
        assert!(line.contains("/memories/{a}") && !line.contains("structuredContent"), "{line}");
    }

    #[test]
    fn an_answer_may_be_deeper_than_a_parser_goes() {
        let text = format!("{{\"value\":{}{}}}", "[".repeat(1_000), "]".repeat(1_000));
        assert!(line_of(&text).contains(&text));
    }
}
