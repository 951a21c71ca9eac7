//! Which queries find which texts.

use crate::lexical::{
    LexicalIndex, MAX_QUERY_TERMS, MAX_TOKEN_CHARS, MAX_TOKENS, analyze, query_terms, tokens,
};

fn spelled(text: &str) -> String {
    tokens(text).join(" ")
}

#[track_caller]
fn finds(query: &str, text: &str) {
    let mut index = LexicalIndex::new();
    index.insert(1, text, None);
    assert_eq!(
        index.search(query, |_| true, 1).len(),
        1,
        "{query:?} should find {text:?}: {:?}",
        tokens(text)
    );
}

#[track_caller]
fn misses(query: &str, text: &str) {
    let mut index = LexicalIndex::new();
    index.insert(1, text, None);
    assert!(
        index.search(query, |_| true, 1).is_empty(),
        "{query:?} should miss {text:?}: {:?}",
        tokens(text)
    );
}

/// Asserts that the document with the whole query ranks before one that shares only parts.
#[track_caller]
fn prefers(query: &str, better: &str, worse: &str) {
    let mut index = LexicalIndex::new();
    index.insert(1, better, None);
    index.insert(0, worse, None);
    let hits = index.search(query, |_| true, 2);
    assert_eq!(hits.first().map(|hit| hit.key), Some(1), "{query:?} should prefer {better:?}");
}

#[test]
fn plain_words() {
    assert_eq!(spelled("Ann moved to Lisbon."), "ann mov to lisbon");
    assert_eq!(spelled("  two -- dashes... and (brackets) "), "two dash and bracket");
    assert_eq!(spelled(""), "");
    assert_eq!(spelled(" \n\t!?..."), "");
}

#[test]
fn ids_are_found_whole_and_by_parts() {
    for (id, parts) in [
        ("user_id-42", &["user", "id", "42", "USER-ID-42", "user id"][..]),
        ("AuthService.login", &["auth", "service", "login", "AuthService", "auth_service", "authservice"]),
        ("gpt-4o-mini", &["gpt", "4o", "mini", "gpt 4o", "GPT4oMini"]),
        ("2023-05-08", &["2023", "05"]),
        ("bob.smith@example.com", &["bob", "smith", "example", "example.com", "bob.smith"]),
        (
            "https://www.example.com/docs/api-v2?page=1",
            &["example", "docs", "api-v2", "www.example.com", "page"],
        ),
        ("/usr/local/bin/my_tool", &["usr", "local", "my_tool", "tool"]),
        ("C:\\Users\\Ann\\notes.txt", &["users", "notes.txt", "notes"]),
        ("v1.2.3", &["v1", "v1.2.3"]),
        ("std::collections::HashMap", &["hash", "map", "hashmap", "std", "collections"]),
        ("HTTPServer", &["http", "server"]),
        ("user42", &["user", "42"]),
        ("10.0.0.1", &["10.0.0.1"]),
        ("550e8400-e29b-41d4-a716-446655440000", &["e29b", "446655440000"]),
        ("e-mail", &["email", "mail"]),
        ("#release", &["release"]),
        ("@ann_b", &["ann", "ann_b"]),
    ] {
        finds(id, &format!("Say {id}, please."));
        for part in parts {
            finds(part, &format!("(see {id})"));
        }
    }
}

#[test]
fn a_compound_ranks_before_its_scattered_parts() {
    prefers("user_id-42", "the row user_id-42 is bad", "a user had the id of 42 rows");
    prefers("v1.2.3", "we run v1.2.3 now", "we run v3.2.1 now");
    prefers("10:30", "we meet at 10:30 here", "we meet at 30:10 here");
}

#[test]
fn compounds_spelled_out() {
    assert_eq!(spelled("user_id-42"), "user id 42 userid42");
    assert_eq!(spelled("AuthService.login"), "authservic auth servic login authservicelogin");
    assert_eq!(spelled("bob@example.com"), "bob exampl com examplecom bobexamplecom");
    assert_eq!(spelled("v1.2.3"), "v1 2 3 v1.2.3");
    assert_eq!(spelled("2023-05-08"), "2023 05 08 2023-05-08");
    assert_eq!(spelled("1,000"), "1 000 1000");
    assert_eq!(spelled("1,2,3"), "1 2 3");
    assert_eq!(spelled("red,green"), "red green");
    assert_eq!(spelled("URLs"), "url");
    assert_eq!(spelled("C++ or C#"), "c++ c or c# c");
}

#[test]
fn apostrophes() {
    assert_eq!(spelled("Ann's dog's don't"), "ann dog dont");
    assert_eq!(spelled("Ann’s"), "ann");
    assert_eq!(spelled("they're we'll I'm"), "they we i");
    assert_eq!(spelled("O'Brien"), "obrien o brien");
    assert_eq!(spelled("'quoted' users'"), "quot user");
    finds("brien", "Conan O’Brien");
    finds("été", "l'été dernier");
}

#[test]
fn inflected_english() {
    finds("hiking trips", "She hiked; one trip.");
    finds("Where did she go?", "She went home.");
    finds("children", "my child");
}

#[test]
fn function_words_count_only_alone() {
    misses("what did the cat do", "what the dog did");
    finds("The Who", "I like The Who");
    assert_eq!(query_terms("When did Ann paint?"), ["ann", "paint"]);
    assert_eq!(query_terms("who is it"), ["who", "be", "it"]);
}

#[test]
fn case_and_accents() {
    for (a, b) in [
        ("café", "CAFE"),
        ("cafe\u{301}", "café"),
        ("Straße", "STRASSE"),
        ("Łódź", "lodz"),
        ("Ærøskøbing", "aeroskobing"),
        ("ΟΔΥΣΣΕΥΣ", "Οδυσσεύς"),
        ("İstanbul", "istanbul"),
        ("Ёлка", "елка"),
        ("ﬁne", "fine"),
        ("ＡＢＣ１２", "abc12"),
        ("١٢٣", "123"),
        ("१२३", "123"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("co\u{ad}operate", "cooperate"),
    ] {
        assert_eq!(tokens(a), tokens(b), "{a} = {b}");
    }
}

#[test]
fn marks_that_spell_stay() {
    assert_eq!(spelled("हिन्दी में"), "हिन्दी में");
    assert_ne!(tokens("が"), tokens("か"));
}

#[test]
fn chinese_and_japanese() {
    assert_eq!(spelled("我爱北京"), "我 爱 我爱 北 爱北 京 北京");
    finds("北京", "我爱北京天安门");
    finds("猫", "黒猫がいる");
    finds("いる", "黒猫がいる");
    finds("ｺｰﾋｰ", "コーヒーを飲む");
    finds("が", "が");
    prefers("北京", "我爱北京", "京北");
    assert_eq!(spelled("用iPhone拍照"), "用 iphon i phon 拍 照 拍照");
}

#[test]
fn korean_with_particles() {
    finds("학교", "나는 학교에 간다");
    finds("집", "집에 간다");
    assert_eq!(tokens("\u{1112}\u{1161}\u{11AB}"), tokens("한"));
}

#[test]
fn scripts_without_spaces() {
    finds("แมว", "ฉันรักแมวมาก");
    finds("ปู", "กินปูกัน");
    finds("ແມວ", "ຂ້ອຍຮັກແມວ");
    finds("ឆ្មា", "ខ្ញុំស្រលាញ់ឆ្មា");
    finds("ကြောင်", "ကျွန်တော်ကြောင်ချစ်တယ်");
    finds("๔๒", "42");
}

#[test]
fn emoji() {
    finds("🎉", "Done🎉🎉");
    finds("👍", "👍🏽 ok");
    finds("❤", "I ❤️ it");
    assert_eq!(spelled("🇫🇷🇩🇪"), "🇫🇷 🇩🇪");
    misses("🇫🇷", "🇩🇪");
}

#[test]
fn a_long_run_is_split_and_found_whole() {
    let blob = "QUJD1".repeat(50);
    let parts = tokens(&blob);
    assert!(parts.iter().all(|part| part.chars().count() <= MAX_TOKEN_CHARS));
    finds(&blob, &format!("key={blob};"));
}

#[test]
fn hostile_input_is_cut_off_in_linear_time() {
    let longest = |text: &str| {
        let (mut count, mut longest) = (0, 0);
        analyze(text, &mut |token| {
            count += 1;
            longest = longest.max(token.chars().count());
        });
        assert!(count <= MAX_TOKENS);
        assert!(longest <= MAX_TOKEN_CHARS);
    };
    let many = 1_000_000;
    for unit in [
        "a",
        "A",
        "aB",
        "a1",
        "ab12",
        "1",
        "-",
        "a-",
        "a.",
        "a/",
        "'",
        "a'",
        "1,",
        "1,000,",
        "a+",
        "\u{301}",
        "e\u{301}",
        "\u{93c}",
        "क\u{93c}",
        "漢",
        "か",
        "\u{3099}",
        "한",
        "ก",
        "เ",
        "\u{e31}",
        "្",
        "🎉",
        "🇫",
        "👩\u{200d}",
        "\u{200d}",
        "ß",
        "\u{fdfa}",
        "\u{1d160}",
        "a\u{ad}",
        " ",
        "\u{a0}",
        "x ",
        "\u{1112}",
        "\u{1161}",
        "\0",
        "\u{10ffff}",
    ] {
        longest(&unit.repeat(many / unit.len()));
    }
    longest(&format!("a{}", "\u{301}".repeat(many)));
    longest(&"a".repeat(10 * many));
}

#[test]
fn a_query_of_ten_thousand_words_is_cut() {
    let query: String = (0..10_000).map(|n| format!("w{n}x ")).collect();
    assert_eq!(query_terms(&query).len(), MAX_QUERY_TERMS);
    finds(&query, "w5x");
    misses(&query, "w9999x");
}

#[test]
fn a_repeated_term_counts_once() {
    assert_eq!(query_terms("cat Cat cats dog"), ["cat", "dog"]);
}
