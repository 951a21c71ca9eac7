//! Checks of arguments that need no capability.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::layer::{
    MAX_CAPTION_BYTES, MAX_MESSAGE_ID_BYTES, MAX_MESSAGES, MAX_MESSAGES_BYTES, MAX_SPEAKER_BYTES, Message,
};
use crate::limits::{MAX_KEY_BYTES, MAX_PAGE};
use crate::scope::{RunContext, Scope, TenantId};
use crate::sql::{MAX_ARGUMENTS, MAX_STATEMENT_BYTES, SqlValue, StatementOptions};

pub(super) fn check_tenant(run: &RunContext, scope: &Scope) -> Result<()> {
    if run.tenant == scope.tenant {
        return Ok(());
    }
    Err(Error::scope_denied(
        "the scope belongs to another tenant than the run; use a scope of the run's own tenant",
    ))
}

pub(super) fn check_limit(what: &'static str, limit: usize, max: usize) -> Result<()> {
    match limit {
        0 => Err(Error::invalid(format!("{what} is 0; ask for 1 to {max}"))),
        limit if limit > max => Err(Error::too_large(what, limit, max, "rows")),
        _ => Ok(()),
    }
}

/// Checks a listing of a tenant's scopes: its page size, and that its cursor belongs to this tenant.
pub(super) fn check_scopes_page(tenant: &TenantId, limit: usize, cursor: Option<&Cursor>) -> Result<()> {
    check_limit("limit", limit, MAX_PAGE)?;
    cursor.map_or(Ok(()), |cursor| cursor.scope(tenant).map(drop))
}

pub(super) fn check_prefix(prefix: &str) -> Result<()> {
    if prefix.len() > MAX_KEY_BYTES {
        return Err(Error::too_large("prefix", prefix.len(), MAX_KEY_BYTES, "bytes"));
    }
    if prefix.contains('\0') {
        return Err(Error::invalid("the prefix has a NUL character; no key has one"));
    }
    Ok(())
}

pub(super) fn check_threshold(threshold: Option<f64>) -> Result<()> {
    match threshold {
        Some(threshold) if !(0.0..=1.0).contains(&threshold) => Err(Error::invalid(
            "threshold must be 0 to 1: it is compared with the similarity of a hit, not with its rank",
        )),
        _ => Ok(()),
    }
}

/// Checks the id of a message or of its session.
pub(super) fn check_message_id(what: &'static str, id: &str) -> Result<()> {
    if id.len() > MAX_MESSAGE_ID_BYTES {
        return Err(Error::too_large(what, id.len(), MAX_MESSAGE_ID_BYTES, "bytes"));
    }
    if id.trim().is_empty() || id.chars().any(char::is_control) {
        return Err(Error::invalid(format!("a {what} is blank or has a control character; leave it out")));
    }
    Ok(())
}

/// Checks messages as an `add` through [`Checked`](crate::Checked) does, for callers that ask what it would do.
///
/// # Errors
/// `invalid_argument`, `too_large`; `details.index` names the message, if it is about one.
pub fn check_messages(messages: &[Message]) -> Result<()> {
    if messages.len() > MAX_MESSAGES {
        return Err(Error::too_large("messages", messages.len(), MAX_MESSAGES, "messages"));
    }
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if bytes > MAX_MESSAGES_BYTES {
        return Err(Error::too_large("messages", bytes, MAX_MESSAGES_BYTES, "bytes"));
    }
    if messages.iter().all(Message::is_blank) {
        return Err(Error::invalid("there is nothing to add; give at least one message that is not blank"));
    }
    for (index, message) in messages.iter().enumerate() {
        if message.content.contains('\0') {
            return Err(
                Error::invalid("a message has a NUL character; remove it").with_detail("index", index)
            );
        }
        for (what, id) in [
            ("message's id", &message.id),
            ("session", &message.session),
            ("id of the answered message", &message.answers),
        ] {
            let Some(id) = id else { continue };
            check_message_id(what, id).map_err(|error| error.with_detail("index", index))?;
        }
        message.metadata.check().map_err(|error| error.with_detail("index", index))?;
        if let Some(caption) = &message.caption {
            if caption.len() > MAX_CAPTION_BYTES {
                return Err(Error::too_large("caption", caption.len(), MAX_CAPTION_BYTES, "bytes"));
            }
            if caption.contains('\0') {
                return Err(
                    Error::invalid("a caption has a NUL character; remove it").with_detail("index", index)
                );
            }
        }
        let Some(name) = &message.name else { continue };
        if name.len() > MAX_SPEAKER_BYTES {
            return Err(Error::too_large("speaker's name", name.len(), MAX_SPEAKER_BYTES, "bytes"));
        }
        if name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid("a speaker's name is blank or has a control character; leave it out")
                .with_detail("index", index));
        }
    }
    Ok(())
}

pub(super) fn check_statement(sql: &str, args: &[SqlValue], options: &StatementOptions) -> Result<()> {
    if sql.len() > MAX_STATEMENT_BYTES {
        return Err(Error::too_large("statement", sql.len(), MAX_STATEMENT_BYTES, "bytes"));
    }
    if sql.trim().is_empty() {
        return Err(Error::invalid("the statement is blank"));
    }
    if args.len() > MAX_ARGUMENTS {
        return Err(Error::too_large("arguments", args.len(), MAX_ARGUMENTS, "values"));
    }
    if options.max_rows == 0 || options.max_bytes == 0 {
        return Err(Error::invalid("a result cap of 0 returns nothing; ask for at least 1 row and 1 byte"));
    }
    Ok(())
}
