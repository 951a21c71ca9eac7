//! Digests of messages: they identify repeated messages, and are all that is left of forgotten ones.

use memory_core::Scope;
use memory_core::layer::{FactId, Message, Role};
use sha2::{Digest as _, Sha256};

/// Hexadecimal digits of a digest.
const DIGITS: usize = 32;

/// The digest that identifies a message: of its id, or else of its content. It is the id of its fact.
pub(crate) fn of_message(scope: &Scope, message: &Message) -> String {
    match &message.id {
        Some(id) => digest(scope, "id", &[id.as_bytes()]),
        None => of_content(scope, message),
    }
}

/// The digest of content, speaker and time.
pub(crate) fn of_content(scope: &Scope, message: &Message) -> String {
    of_parts(
        scope,
        message.role,
        message.name.as_deref(),
        message.at.map(|at| at.as_millis()),
        &message.content,
        message.caption.as_deref(),
    )
}

/// The same, from its parts.
pub(crate) fn of_parts(
    scope: &Scope,
    role: Role,
    speaker: Option<&str>,
    at: Option<i64>,
    content: &str,
    caption: Option<&str>,
) -> String {
    // A picture without words is told apart by its caption. No content contains a NUL.
    let caption = caption.filter(|_| content.trim().is_empty()).map(|caption| format!("\0{caption}"));
    let content = caption.as_deref().unwrap_or(content);
    let role = match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    };
    let at = at.map(|at| at.to_string()).unwrap_or_default();
    let speaker = speaker.unwrap_or_default();
    digest(scope, "content", &[role.as_bytes(), speaker.as_bytes(), at.as_bytes(), content.as_bytes()])
}

/// The digest of the message with this id.
pub(crate) fn of_id(scope: &Scope, id: &str) -> String {
    digest(scope, "id", &[id.as_bytes()])
}

/// The digest of something said again in the words of a corrected turn; `after` is that turn's digest.
pub(crate) fn said_anew(scope: &Scope, after: &str) -> String {
    digest(scope, "anew", &[after.as_bytes()])
}

/// The digest of a derived fact; `after` is that of an earlier, superseded fact with the same words.
pub(crate) fn of_fact(scope: &Scope, text: &str, after: &str) -> String {
    digest(scope, "fact", &[text.as_bytes(), after.as_bytes()])
}

/// Whether an id can be one of ours.
pub(crate) fn is_digest(id: &FactId) -> bool {
    let id = id.as_str();
    id.len() == DIGITS && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The scope is part of every digest: two scopes share no id, and a digest reveals nothing to anyone who does not know
/// the scope.
fn digest(scope: &Scope, what: &str, parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new().chain_update(scope.digest().as_bytes()).chain_update(what);
    for part in parts {
        // The length keeps neighbouring parts apart.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let hex: String = hash.finalize().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_id_or_its_content_speaker_and_time() {
        let scope = Scope::agent("t", "a").unwrap();
        let plain = Message::new(Role::User, "hello");
        let id = |message: &Message| of_message(&scope, message);
        assert_eq!(id(&plain), id(&plain.clone().with_session("s".into())));
        for other in [
            plain.clone().with_name("Ann".into()),
            plain.clone().with_at(memory_core::Timestamp::EPOCH),
            plain.clone().with_id("1".into()),
            Message::new(Role::Assistant, "hello"),
            Message::new(Role::User, "Hello"),
        ] {
            assert_ne!(id(&plain), id(&other), "{other:?}");
        }
        assert_eq!(id(&plain), id(&plain.clone().with_caption("a kite".into())));
        let picture = |caption: &str| Message::new(Role::User, "").with_caption(caption.into());
        assert_ne!(id(&picture("a kite")), id(&picture("a boat")));
        let named = Message::new(Role::User, "a").with_id("1".into());
        assert_eq!(id(&named), id(&Message::new(Role::User, "b").with_id("1".into())));
        assert_ne!(of_message(&Scope::user("t", "a").unwrap(), &named), id(&named));
        assert!(is_digest(&FactId::new(id(&named)).unwrap()));
        assert!(
            !is_digest(&FactId::new(id(&named).to_uppercase()).unwrap())
                || id(&named) == id(&named).to_uppercase()
        );
    }
}
