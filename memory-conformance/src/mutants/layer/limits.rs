//! Input checks that repair what they should refuse.

use memory_core::Request;
use memory_core::layer::{Forget, MAX_MESSAGES, MAX_MESSAGES_BYTES, MAX_SPEAKER_BYTES, Message, Role};
use memory_core::limits::{MAX_PAGE, MAX_QUERY_BYTES};

use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.door-says-something": ["LAY-60"] needs [Layer], "an empty add adds a word" => ask_ahead(|request| {
        if let Some(messages) = messages(request)
            && messages.iter().all(|message| message.content.trim().is_empty())
        {
            messages.push(Message::new(Role::User, "something"));
        }
    });
    "layer.door-cuts-messages": ["LAY-60"] needs [Layer], "messages over the limit are dropped"
        => ask_ahead(|request| if let Some(messages) = messages(request) { messages.truncate(MAX_MESSAGES); });
    "layer.door-cuts-words": ["LAY-60"] needs [Layer], "words over the limit are dropped"
        => ask_ahead(|request| {
            if let Some(messages) = messages(request)
                && messages.iter().map(|message| message.content.len()).sum::<usize>() > MAX_MESSAGES_BYTES
            {
                messages.truncate(1);
            }
        });
    "layer.door-drops-nul": ["LAY-60", "LAY-61"] needs [Layer], "NUL characters are dropped"
        => ask_ahead(|request| {
            match request {
                Request::Add { messages, .. } => {
                    messages.iter_mut().for_each(|message| message.content = message.content.replace('\0', ""));
                }
                Request::Recall { query, .. } => query.text = query.text.replace('\0', ""),
                _ => {}
            }
        });
    "layer.door-drops-speakers": ["LAY-60"] needs [Layer], "invalid speaker names are dropped"
        => ask_ahead(|request| {
            for message in messages(request).into_iter().flatten() {
                message.name =
                    message.name.take().filter(|name| !name.trim().is_empty() && !name.chars().any(char::is_control));
            }
        });
    "layer.door-cuts-speakers": ["LAY-60"] needs [Layer], "speaker names over the limit are cut"
        => ask_ahead(|request| {
            for message in messages(request).into_iter().flatten() {
                if let Some(name) = message.name.as_mut().filter(|name| name.is_ascii()) {
                    name.truncate(MAX_SPEAKER_BYTES);
                }
            }
        });
    "layer.door-asks-something": ["LAY-61"] needs [Layer], "a blank question matches anything"
        => ask_ahead(Request::Recall { query, .. } if query.text.trim().is_empty() => query.text = "anything".to_owned());
    "layer.door-cuts-questions": ["LAY-61"] needs [Layer], "a question over the limit is cut"
        => ask_ahead(Request::Recall { query, .. } if query.text.is_ascii() => query.text.truncate(MAX_QUERY_BYTES));
    "layer.door-raises-top-k": ["LAY-62"] needs [Layer], "top_k 0 is 1"
        => ask_ahead(Request::Recall { query, .. } => query.top_k = query.top_k.max(1));
    "layer.door-lowers-top-k": ["LAY-62"] needs [Layer], "top_k over the limit is lowered"
        => ask_ahead(Request::Recall { query, .. } => query.top_k = query.top_k.min(1_000));
    "layer.door-clamps-thresholds": ["LAY-62"] needs [Layer], "a threshold outside 0 to 1 is clamped"
        => ask_ahead(Request::Recall { query, .. }
            => query.threshold = query.threshold.map(|threshold| threshold.clamp(0.0, 1.0)));
    "layer.door-drops-nan": ["LAY-62"] needs [Layer], "a NaN threshold is ignored"
        => ask_ahead(Request::Recall { query, .. }
            => query.threshold = query.threshold.filter(|threshold| !threshold.is_nan()));
    "layer.door-raises-pages": ["LAY-63"] needs [Layer], "a page size of 0 becomes 1"
        => ask_ahead(Request::Facts { query, .. } => query.limit = query.limit.max(1));
    "layer.door-lowers-pages": ["LAY-63"] needs [Layer], "a page size over the limit is lowered"
        => ask_ahead(Request::Facts { query, .. } => query.limit = query.limit.min(MAX_PAGE));
    "layer.door-drops-cursors": ["LAY-63"] needs [Layer], "an empty cursor is ignored"
        => ask_ahead(Request::Facts { query, .. } => query.cursor = query.cursor.take().filter(|cursor| !cursor.is_empty()));
    "layer.door-drops-long-cursors": ["LAY-63"] needs [Layer], "a cursor over the limit is ignored"
        => ask_ahead(Request::Facts { query, .. } => query.cursor = query.cursor.take().filter(|cursor| cursor.len() <= 4_096));
    "layer.door-merges-ids": ["LAY-64"] needs [Layer, LayerForget], "a repeated id counts once"
        => ask_ahead(Request::Forget { what: Forget::Ids(ids), .. } => {
            ids.sort();
            ids.dedup();
        });
    "layer.door-cuts-ids": ["LAY-64"] needs [Layer, LayerForget], "ids over the limit are dropped"
        => ask_ahead(Request::Forget { what: Forget::Ids(ids), .. } => ids.truncate(1_000));
    "layer.door-no-id-is-all": ["LAY-64"] needs [Layer, LayerForget], "forgetting an empty list of ids forgets all"
        => ask_ahead(Request::Forget { what, .. } if matches!(what, Forget::Ids(ids) if ids.is_empty()) => *what = Forget::All);
}

fn messages(request: &mut Request) -> Option<&mut Vec<Message>> {
    match request {
        Request::Add { messages, .. } => Some(messages),
        _ => None,
    }
}
