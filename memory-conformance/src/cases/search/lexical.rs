//! SRC, first half: lexical hits and their scores.

use memory_core::lexical::{LexicalHit, rank};
use memory_core::{
    BackendExt as _, Json, Key, NewEntry, OnExisting, Reducer, Result, Scope, SearchMode, SearchQuery,
    SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::entries::{item, item_with};
use crate::cx::{Cx, hit_keys, json, key};
use crate::random::Random;

pub(crate) const CASES: &[Case] = &[
    case!("lexical.terms.any-one-finds", [Kv, Lexical], ["SRC-1"], |cx| {
        finds_among(
            cx,
            &[("a", "ann drinks green tea"), ("b", "bob drinks coffee"), ("c", "rain tomorrow")],
            &[
                ("tea", &["a"]),
                ("drinks", &["a", "b"]),
                ("tea coffee", &["a", "b"]),
                ("green coffee rain", &["a", "b", "c"]),
                ("tea elephants", &["a"]),
                ("elephants", &[]),
                ("te", &[]),
                ("dri", &[]),
            ],
        )
        .await?;
    }),
    case!("lexical.value.strings-numbers-names", [Kv, Lexical], ["SRC-1"], |cx, scope: Scope| {
        cx.fill(
            &scope,
            &[
                ("object", r#"{"favourite":"oolong","cups":[{"size":4711}]}"#),
                ("string", r#""escaped \u006fbsidian and a\ttab""#),
                ("number", "31337"),
                ("array", r#"["first","second",[["nested"]]]"#),
                ("empty", "{}"),
                ("boolean", r#"{"flag":true,"nothing":null}"#),
            ],
        )
        .await?;
        finds(
            cx,
            &scope,
            &[
                ("oolong", &["object"]),
                ("favourite", &["object"]),
                ("4711", &["object"]),
                ("obsidian", &["string"]),
                ("tab", &["string"]),
                ("31337", &["number"]),
                ("nested", &["array"]),
                ("flag", &["boolean"]),
                ("true", &[]),
                ("null", &[]),
                ("string", &[]),
            ],
        )
        .await?;
    }),
    case!("lexical.text.in-place-of-the-value", [Kv, Lexical], ["SRC-1"], |cx, scope: Scope| {
        let options = SetOptions::default().with_text("prefers oolong");
        cx.set_with(&scope, "k", r#"{"coffee":"espresso"}"#, options).await?;
        finds(cx, &scope, &[("oolong", &["k"]), ("espresso", &[]), ("coffee", &[])]).await?;
        cx.merge(&scope, "k", r#"{"coffee":"ristretto"}"#).await?;
        finds(cx, &scope, &[("oolong", &["k"]), ("ristretto", &[])]).await?;
        cx.set(&scope, "k", r#"{"coffee":"espresso"}"#).await?;
        finds(cx, &scope, &[("oolong", &[]), ("espresso", &["k"])]).await?;
    }),
    case!("lexical.text.blank-finds-nothing", [Kv, Lexical], ["SRC-1"], |cx, scope: Scope| {
        for (key, text) in [("empty", ""), ("space", " \n"), ("marks", "!?")] {
            cx.set_with(&scope, key, "\"oolong\"", SetOptions::default().with_text(text)).await?;
        }
        finds(cx, &scope, &[("oolong", &[])]).await?;
    }),
    case!("lexical.writes.every-door-indexes", [Kv, Lexical], ["SRC-2"], |cx, scope: Scope, other: Scope| {
        cx.say(&other, "imported", "oolong").await?;
        cx.say(&scope, "set", "oolong").await?;
        cx.bulk(&scope, vec![item("bulk", "\"oolong\"")?]).await?;
        cx.merge(&scope, "merged", r#"{"tea":"oolong"}"#).await?;
        cx.update(&scope, "appended", Reducer::AppendDedupe(json("\"oolong\"")?)).await?;
        cx.update(&scope, "bounded", Reducer::BoundedList { item: json("\"oolong\"")?, limit: 1 }).await?;
        cx.increment(&scope, "counted", 4_711).await?;
        cx.import(&scope, cx.export(&other).await?, OnExisting::Skip).await?;
        let all: &[&str] = &["appended", "bounded", "bulk", "imported", "merged", "set"];
        finds(cx, &scope, &[("oolong", all), ("4711", &["counted"])]).await?;
    }),
    case!(
        "lexical.writes.overwritten-words-gone",
        [Kv, Lexical],
        ["SRC-2"],
        |cx, scope: Scope, other: Scope| {
            for key in ["bulk", "imported", "kept", "merged", "set"] {
                cx.set(&scope, key, r#"{"tea":"oolong"}"#).await?;
            }
            cx.set(&scope, "counted", "4711").await?;
            cx.update(&scope, "bounded", Reducer::BoundedList { item: json("\"oolong\"")?, limit: 1 })
                .await?;
            cx.set(&scope, "set", "\"sencha\"").await?;
            cx.bulk(&scope, vec![item("bulk", "\"sencha\"")?]).await?;
            cx.merge(&scope, "merged", r#"{"tea":"sencha"}"#).await?;
            cx.update(&scope, "bounded", Reducer::BoundedList { item: json("\"sencha\"")?, limit: 1 })
                .await?;
            cx.increment(&scope, "counted", 1).await?;
            cx.set(&other, "imported", "\"sencha\"").await?;
            cx.import(&scope, cx.export(&other).await?, OnExisting::Replace).await?;
            let new: &[&str] = &["bounded", "bulk", "imported", "merged", "set"];
            finds(
                cx,
                &scope,
                &[("oolong", &["kept"]), ("sencha", new), ("4711", &[]), ("4712", &["counted"])],
            )
            .await?;
        }
    ),
    case!(
        "lexical.writes.dropped-scope-finds-nothing",
        [Kv, Lexical],
        ["SRC-2", "SCO-4"],
        |cx, scope: Scope| {
            cx.say_all(&scope, &[("a", "oolong"), ("b", "sencha")]).await?;
            cx.kv().drop_scope(&scope).await?;
            finds(cx, &scope, &[("oolong", &[]), ("sencha", &[])]).await?;
            cx.say(&scope, "a", "sencha").await?;
            finds(cx, &scope, &[("oolong", &[]), ("sencha", &["a"])]).await?;
            expect_oracle(cx, &scope, "sencha oolong").await?;
        }
    ),
    case!("lexical.words.case-and-accents", [Kv, Lexical], ["SRC-3"], |cx| {
        finds_among(
            cx,
            &[
                ("cafe", "the Caf\u{e9} by the river"),
                ("combining", "a cafe\u{301} too"),
                ("fraktur", "ﬁne 𝔗ea"),
                ("german", "Straße"),
                ("greek", "ΟΔΟΣ"),
                ("wide", "ＷＩＤＥ letters"),
            ],
            &[
                ("cafe", &["cafe", "combining"]),
                ("CAF\u{c9}", &["cafe", "combining"]),
                ("cafe\u{301}", &["cafe", "combining"]),
                ("fine tea", &["fraktur"]),
                ("STRASSE", &["german"]),
                ("οδος", &["greek"]),
                ("wide", &["wide"]),
            ],
        )
        .await?;
    }),
    case!("lexical.words.ids-whole-and-by-parts", [Kv, Lexical], ["SRC-3"], |cx| {
        finds_among(
            cx,
            &[
                ("camel", "AuthService throws"),
                ("date", "on 2023-05-08"),
                ("mail", "write to bob@example.com"),
                ("snake", "set user_id-42 first"),
                ("version", "since v1.2.3"),
            ],
            &[
                ("user_id-42", &["snake"]),
                ("user", &["snake"]),
                ("42", &["snake"]),
                ("authservice", &["camel"]),
                ("auth", &["camel"]),
                ("2023-05-08", &["date"]),
                ("bob@example.com", &["mail"]),
                ("example", &["mail"]),
                ("v1.2.3", &["version"]),
            ],
        )
        .await?;
    }),
    case!("lexical.words.without-spaces", [Kv, Lexical], ["SRC-3"], |cx| {
        finds_among(
            cx,
            &[
                ("chinese", "我爱北京天安门"),
                ("emoji", "she sent 🦀 again"),
                ("hindi", "हिन्दी में लिखा"),
                ("japanese", "大阪タワーへ行く"),
                ("korean", "한국어를 배운다"),
                ("thai", "ภาษาไทยง่าย"),
            ],
            &[
                ("北京", &["chinese"]),
                ("大阪", &["japanese"]),
                ("タワー", &["japanese"]),
                ("한국어", &["korean"]),
                ("ภาษา", &["thai"]),
                ("हिन्दी", &["hindi"]),
                ("🦀", &["emoji"]),
            ],
        )
        .await?;
    }),
    case!("lexical.words.inflected", [Kv, Lexical], ["SRC-3"], |cx| {
        finds_among(
            cx,
            &[("a", "Ann's dogs are running"), ("b", "they don't like cats")],
            &[
                ("dog", &["a"]),
                ("ann", &["a"]),
                ("run", &["a"]),
                ("cat", &["b"]),
                ("what do the dogs do", &["a"]),
            ],
        )
        .await?;
    }),
    case!("lexical.words.large-text", [Kv, Lexical], ["SRC-1"], |cx, scope: Scope| {
        // 20,000 mostly different words, with the one searched for at the end.
        let words: String = (0..20_000).map(|at| format!("w{} ", at % 5_000)).collect();
        let options = SetOptions::default().with_text(format!("{words} oolong"));
        cx.set_with(&scope, "large", "1", options).await?;
        cx.say(&scope, "small", "oolong").await?;
        finds(cx, &scope, &[("oolong", &["large", "small"]), ("w4999", &["large"])]).await?;
        expect_oracle(cx, &scope, "oolong w17").await?;
    }),
    case!("lexical.score.as-the-oracle", [Kv, Lexical], ["SRC-4", "SRC-6"], |cx| {
        let scope = corpus(cx, &mut cx.random(), 60).await?;
        for query in QUERIES {
            expect_oracle(cx, &scope, query).await?;
            let hits = cx.words(&scope, query).await?;
            check!(
                hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)),
                "a score for `{query}` is outside 0 to 1"
            );
            let ordered = hits.is_sorted_by(|a, b| {
                a.score > b.score || (a.score == b.score && a.entry.key.as_str() < b.entry.key.as_str())
            });
            let order: Vec<(&str, f64)> =
                hits.iter().map(|hit| (hit.entry.key.as_str(), hit.score)).collect();
            check!(ordered, "hits for `{query}` are not in order: {order:?}");
        }
    }),
    case!("lexical.score.after-changes", [Kv, Lexical], ["SRC-2", "SRC-4"], |cx| {
        let mut random = cx.random();
        let scope = corpus(cx, &mut random, 40).await?;
        expect_oracle(cx, &scope, "who drinks tea").await?;
        for round in 0..6 {
            for _ in 0..4 {
                let name = format!("{:03}", random.index(50));
                match random.below(6) {
                    0 => drop(cx.delete(&scope, &name).await?),
                    1 => {
                        let items = vec![item_with(
                            &name,
                            &Json::string(&sentence(&mut random)).to_string(),
                            cx.expiring(2),
                        )?];
                        cx.bulk(&scope, items).await?;
                    }
                    2 => {
                        let options = SetOptions::default().with_text(sentence(&mut random));
                        cx.set_with(&scope, &name, "0", options).await?;
                    }
                    3 => drop(cx.set(&scope, &name, "41").await?),
                    4 => drop(cx.set_with(&scope, &name, "{}", cx.expiring(1)).await?),
                    _ => drop(cx.say(&scope, &name, &sentence(&mut random)).await?),
                }
            }
            cx.advance_ms(1);
            for query in ["who drinks tea", "green 41 dogs"] {
                expect_oracle(cx, &scope, query).await.map_err(|stop| match stop {
                    crate::check::Stop::Failed(why) => {
                        crate::check::Stop::Failed(format!("in round {round}: {why}"))
                    }
                    stop => stop,
                })?;
            }
        }
    }),
    case!("lexical.score.of-every-script", [Kv, Lexical], ["SRC-3", "SRC-4"], |cx, scope: Scope| {
        let sentences = [
            ("a", "我爱北京天安门 and tea"),
            ("b", "東京タワー 北京"),
            ("c", "한국어를 배운다"),
            ("d", "ﬁne Straße CAFÉ cafe\u{301}"),
            ("e", "user_id-42 AuthService.login v1.2.3 2023-05-08 1,000"),
            ("f", "🦀🦀 👩‍👩‍👧 🇫🇷🇩🇪"),
            ("g", "O'Brien's don’t they're"),
            ("h", "ภาษาไทย हिन्दी में עברית العربية"),
            ("i", "\u{0}nul\u{1}control\u{200b}zero\u{ad}width\u{202e}"),
            ("j", "!?… --"),
        ];
        cx.say_all(&scope, &sentences).await?;
        for (_, sentence) in sentences {
            expect_oracle(cx, &scope, sentence).await?;
        }
        for query in
            ["北", "京都", "cafe fine", "42 login", "brien", "nul zero", "widthzero", "🦀", "العربية"]
        {
            expect_oracle(cx, &scope, query).await?;
        }
    }),
    case!("lexical.score.rare-words-weigh-more", [Kv, Lexical], ["SRC-5"], |cx, scope: Scope| {
        cx.say_all(
            &scope,
            &[
                ("both", "ann saw the lighthouse"),
                ("common", "ann saw the river"),
                ("common2", "ann saw the garden"),
                ("common3", "ann saw the market"),
                ("rare", "bob saw the lighthouse"),
            ],
        )
        .await?;
        let hits = cx.words(&scope, "ann lighthouse").await?;
        expect_eq!(hit_keys(&hits), ["both", "rare", "common", "common2", "common3"]);
        let score = |name: &str| hits.iter().find(|hit| hit.entry.key.as_str() == name).map(|hit| hit.score);
        let (both, rare) = (expect_some!(score("both")), expect_some!(score("rare")));
        let common = expect_some!(score("common"));
        check!(
            both > rare && rare > common,
            "scores {both}, {rare} and {common} of both, the rare and the common word"
        );
    }),
    case!("lexical.query.is-data", [Kv, Lexical], ["SRC-14"], |cx, scope: Scope| {
        cx.say_all(
            &scope,
            &[
                ("a", "green tea"),
                ("b", "tea and coffee or not"),
                ("c", "near the key"),
                ("d", "value text metadata"),
                ("e", "100% sure"),
            ],
        )
        .await?;
        const QUERIES: &str = "\"green tea\"§\"green§\"\"tea\"\"§'tea'§tea'; DROP TABLE entries; --§tea*§te*§*§^tea§\
             +tea -coffee§-tea§tea AND coffee§tea OR§NOT tea§AND§NEAR(tea coffee, 5)§NEAR§(tea§tea)§((§\
             {value}: tea§value:tea§value : tea§key:a§rank§tea~2§tea^3§tea|coffee§tea & coffee§\
             tea <-> coffee§!tea§:*§tea:*§%§100%§_§te_§te%§\\§tea\\§tea\0coffee§\0 tea§$1§?§[tea]§/tea/§\
             tea -- coffee§<b>tea</b>§tea\ncoffee§\u{feff}tea§🦀 tea§tea, coffee; key.";
        for query in QUERIES.split('§') {
            expect_oracle(cx, &scope, query).await?;
        }
    }),
];

/// The expected score of each live entry for a query, computed from all of them.
async fn oracle(cx: &Cx, scope: &Scope, query: &str) -> Result<Vec<LexicalHit<Key>>> {
    let entries = cx.kv().list_all(scope, "").await?;
    let documents = entries.iter().map(|entry| (entry.key.clone(), entry.search_text()));
    Ok(rank(query, documents, |_| true, usize::MAX))
}

/// Proves that a search finds what the oracle finds, with the same scores.
async fn expect_oracle(cx: &Cx, scope: &Scope, query: &str) -> CaseResult {
    let mut due = oracle(cx, scope, query).await?;
    due.sort_by(|a, b| a.key.cmp(&b.key));
    let all = SearchQuery::new(query)
        .with_mode(SearchMode::Lexical)
        .with_top_k(cx.capabilities().max_top_k.min(1_000));
    let mut hits = cx.find(scope, all).await?;
    hits.sort_by(|a, b| a.entry.key.cmp(&b.entry.key));
    let shown: String = query.chars().take(60).collect();
    let due_keys: Vec<&str> = due.iter().map(|hit| hit.key.as_str()).collect();
    expect_eq!(hit_keys(&hits), due_keys, "the keys that `{}` finds", shown.escape_debug());
    for (hit, due) in hits.iter().zip(&due) {
        check!(
            (hit.score - due.score).abs() <= 1e-9,
            "`{}` scores {} for `{}`, expected {}",
            hit.entry.key,
            hit.score,
            shown.escape_debug(),
            due.score
        );
    }
    Ok(())
}

/// Each query must find exactly the given keys, in byte order.
async fn finds(cx: &Cx, scope: &Scope, table: &[(&str, &[&str])]) -> CaseResult {
    for (query, due) in table {
        let hits = cx.words(scope, query).await?;
        let mut found = hit_keys(&hits);
        found.sort_unstable();
        expect_eq!(found, *due, "the keys that `{query}` finds");
    }
    Ok(())
}

/// As [`finds`], where these sentences are stored.
async fn finds_among(cx: &Cx, sentences: &[(&str, &str)], table: &[(&str, &[&str])]) -> CaseResult {
    let scope = cx.scope()?;
    cx.say_all(&scope, sentences).await?;
    finds(cx, &scope, table).await
}

const WORDS: &str = "tea green Oslo rain user_id-42 ann bob drinks the a running Café v1.2.3 北京 41 lighthouse dogs \
     yesterday don't AuthService";

const QUERIES: &[&str] = &[
    "tea",
    "who drinks green tea in Oslo",
    "user_id-42 41",
    "lighthouse elephants",
    "the",
    "北京 cafe dogs",
];

fn sentence(random: &mut Random) -> String {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let length = 1 + random.index(14);
    (0..length).filter_map(|_| random.pick(&words).copied()).collect::<Vec<_>>().join(" ")
}

async fn corpus(cx: &Cx, random: &mut Random, count: usize) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let items =
        (0..count).map(|at| Ok(NewEntry::new(key(&format!("{at:03}"))?, Json::string(&sentence(random)))));
    cx.bulk(&scope, items.collect::<Result<_>>()?).await?;
    Ok(scope)
}
