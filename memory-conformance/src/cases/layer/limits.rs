//! Limits: what is refused up front.

use memory_core::ErrorKind;
use memory_core::layer::{AddOptions, FactId, Message, RecallQuery, Role};

use crate::case::{Case, case};
use crate::check::{expect_eq, expect_kind};
use crate::cx::conversation::{Conversation, about, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.limits.nothing-said", [Layer], ["LAY-60"], |cx, chat: Conversation| {
        let blank = [Message::new(Role::User, ""), Message::new(Role::Assistant, " \n\u{a0}")];
        for messages in [&[][..], &blank[..1], &blank] {
            let add = chat.add(messages, AddOptions::default()).await;
            expect_kind!(add, ErrorKind::InvalidArgument, "an add of {} blank messages", messages.len());
        }
        expect_eq!(chat.facts().await?, [], "facts after refused adds");
    }),
    case!("layer.limits.too-much-said", [Layer], ["LAY-60"], |cx, chat: Conversation| {
        let many = vec![Message::new(Role::User, "x"); 1_001];
        expect_kind!(chat.add(&many, AddOptions::default()).await, ErrorKind::TooLarge, "1,001 messages");
        let half = "theremin ".repeat(59_000);
        let long = [Message::new(Role::User, half.clone()), Message::new(Role::Assistant, half)];
        expect_kind!(
            chat.add(&long, AddOptions::default()).await,
            ErrorKind::TooLarge,
            "over 1 MiB of words"
        );
        expect_eq!(chat.facts().await?, [], "facts after refused adds");
    }),
    case!("layer.limits.nul-said", [Layer], ["LAY-60"], |cx, chat: Conversation| {
        let said = [Message::new(Role::User, about("theremin")), Message::new(Role::User, "a\0b")];
        let add = chat.add(&said, AddOptions::default()).await;
        expect_kind!(add, ErrorKind::InvalidArgument, "a message with a NUL character");
        expect_eq!(chat.facts().await?, [], "facts after refused adds");
    }),
    case!("layer.limits.speakers", [Layer], ["LAY-60"], |cx, chat: Conversation| {
        for (name, kind) in [
            (String::new(), ErrorKind::InvalidArgument),
            (" ".to_owned(), ErrorKind::InvalidArgument),
            ("a\nb".to_owned(), ErrorKind::InvalidArgument),
            ("x".repeat(257), ErrorKind::TooLarge),
        ] {
            let mut message = Message::new(Role::User, about("theremin"));
            let what = format!("a speaker's name of {} bytes", name.len());
            message.name = Some(name);
            expect_kind!(chat.add(&[message], AddOptions::default()).await, kind, "{what}");
        }
        expect_eq!(chat.facts().await?, [], "facts after refused adds");
    }),
    case!("layer.limits.questions", [Layer], ["LAY-61"], |cx, chat: Conversation| {
        for blank in ["", " ", "\n\t", "\u{3000}"] {
            expect_kind!(chat.recall(blank).await, ErrorKind::InvalidArgument, "the question {blank:?}");
        }
        expect_kind!(
            chat.recall("a\0b").await,
            ErrorKind::InvalidArgument,
            "a question with a NUL character"
        );
        let long = "x".repeat((64 << 10) + 1);
        expect_kind!(chat.recall(&long).await, ErrorKind::TooLarge, "a question of over 64 KiB");
    }),
    case!("layer.limits.top-k", [Layer], ["LAY-62"], |cx, chat: Conversation| {
        let asking = |top_k| RecallQuery::new("theremin").with_top_k(top_k);
        let most = cx.capabilities().max_top_k;
        expect_kind!(chat.recall_with(asking(0)).await, ErrorKind::InvalidArgument, "top_k 0");
        expect_kind!(chat.recall_with(asking(most + 1)).await, ErrorKind::TooLarge, "top_k over {most}");
        expect_eq!(chat.recall_with(asking(most)).await?, [], "top_k {most} without facts");
    }),
    case!("layer.limits.thresholds", [Layer], ["LAY-62"], |cx, chat: Conversation| {
        for threshold in [-0.1, 1.1, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let query = RecallQuery::new("theremin").with_threshold(threshold);
            expect_kind!(
                chat.recall_with(query).await,
                ErrorKind::InvalidArgument,
                "a threshold of {threshold}"
            );
        }
    }),
    case!("layer.limits.pages", [Layer], ["LAY-63"], |cx, chat: Conversation| {
        chat.learn("theremin").await?;
        expect_kind!(chat.page(None, 0).await, ErrorKind::InvalidArgument, "pages of 0");
        expect_kind!(chat.page(None, 1_001).await, ErrorKind::TooLarge, "pages of 1,001");
        expect_eq!(chat.page(None, 1_000).await?.facts.len(), 1, "facts on a page of 1,000");
    }),
    case!("layer.limits.cursors", [Layer], ["LAY-63"], |cx, chat: Conversation| {
        for cursor in [String::new(), "A".repeat(4_097), "A".repeat(1_000_000)] {
            let what = format!("a cursor of {} bytes", cursor.len());
            expect_kind!(chat.page(Some(cursor), 10).await, ErrorKind::InvalidArgument, "{what}");
        }
    }),
    case!("layer.limits.ids", [Layer, LayerForget], ["LAY-64"], |cx, chat: Conversation| {
        chat.add_and_wait(&user(&about("theremin")), AddOptions::default()).await?;
        let id = chat.wait_for("theremin").await?;
        expect_kind!(chat.forget(&[]).await, ErrorKind::InvalidArgument, "forgetting no id");
        let twice = [id.clone(), id.clone()];
        expect_kind!(chat.forget(&twice).await, ErrorKind::InvalidArgument, "forgetting an id twice at once");
        let mut many = vec![id];
        for n in 0..1_000 {
            many.push(FactId::new(format!("00000000-0000-4000-8000-{n:012}"))?);
        }
        expect_kind!(chat.forget(&many).await, ErrorKind::TooLarge, "forgetting 1,001 ids");
        chat.knows_only(&["theremin"], &[]).await?;
    }),
];
