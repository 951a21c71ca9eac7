//! GOV-35: a language model that fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::{ChatModel, ChatPrompt, ChatReply, Error, ErrorKind, Result};
use memory_governed::{Interpreter, ModelInterpreter};

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::shared::{kind, only};

/// A model's reply for a note: the end of one issue.
const NAMED: &str = r#"{"decision": "accept", "writes": [{"bucket": "issues", "operation": "resolve", "target_id": "db_outage"}]}"#;

pub(crate) const CASES: &[Case] = &[case!("gov.model.failures", [Sql, HostTables], ["GOV-35"], |cx| {
    let model = Arc::new(Scripted::default());
    let interpreter: Arc<dyn Interpreter> =
        Arc::new(ModelInterpreter::new(Arc::clone(&model) as Arc<dyn ChatModel>));
    let shared = cx.shared_with(move |setup| setup.interpreter = interpreter).await?;
    let opened = r#"{"decision": "accept", "writes": [{"bucket": "issues", "operation": "upsert", "target_id": "db_outage",
        "payload": {"title": "Database outage in the Frankfurt region"}}]}"#;
    model.says(Ok(opened));
    expect_eq!(kind(&shared.write("The database in Frankfurt is down: db_outage").await?), "applied");
    // Whatever goes wrong with the model, the note is neither lost nor rejected, and nothing is written.
    model.says(Err(ErrorKind::RateLimited));
    let text = "db_outage is resolved";
    let noted = shared.say(text).await?;
    check!(noted.is_retried && noted.outcomes.is_empty(), "a note whose model is busy became {noted:?}");
    let unknown = NAMED.replace("\"target_id\"", "\"trust\": \"person\", \"target_id\"");
    let wrong = NAMED.replace("\"resolve\"", "\"append\"");
    for reply in [
        Err(ErrorKind::Timeout),
        Err(ErrorKind::Unavailable),
        Ok(""),
        Ok("Sure! Here is the JSON you asked for:"),
        Ok(r#"{"decision": "accept", "writes": []}"#),
        Ok(unknown.as_str()),
        Ok(wrong.as_str()),
    ] {
        model.says(reply);
        check!(shared.state.promote_one().await?.is_none(), "a failed model is asked again without a pause");
        cx.advance_ms(3_600_000 * 2);
        let again = shared.promoted().await?;
        check!(again.is_retried && again.outcomes.is_empty(), "after {reply:?} the note became {again:?}");
        expect_eq!(shared.issue("db_outage").await?, "open", "the issue after {reply:?}");
    }
    let waiting = shared.state.notes("ada").await?;
    expect_eq!(waiting.last().map(|note| note.state.as_str()), Some("new"), "the note's state");
    model.says(Ok(NAMED));
    cx.advance_ms(3_600_000 * 2);
    expect_eq!(kind(&only(shared.promoted().await?, text)?), "applied", "once the model answers");
    // An id that the model invented, or took from what it was shown, binds nothing.
    model.says(Ok(&opened.replace("db_outage", "db_outage_2")));
    shared.write("It is down again: db_outage_2").await?;
    for id in ["db_outage_2", "made_up"] {
        model.says(Ok(&NAMED.replace("db_outage", id)));
        expect_eq!(kind(&shared.write("It works again.").await?), "deferred", "the model says {id}");
    }
    expect_eq!(shared.issue("db_outage_2").await?, "open");
    expect_eq!(shared.count("events_memory").await?, 3, "events");
    shared.is_sound().await?;
})];

/// A model with scripted replies.
#[derive(Debug, Default)]
struct Scripted(Mutex<VecDeque<std::result::Result<String, ErrorKind>>>);

impl Scripted {
    fn says(&self, reply: std::result::Result<&str, ErrorKind>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply.map(str::to_owned));
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn model(&self) -> &'static str {
        "scripted-1"
    }

    async fn complete(&self, _: &ChatPrompt) -> Result<ChatReply> {
        let reply = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match reply.unwrap_or(Err(ErrorKind::Unavailable)) {
            Ok(text) => Ok(ChatReply { text, ..ChatReply::default() }),
            Err(kind) => Err(Error::new(kind, "the model has no answer")),
        }
    }
}
