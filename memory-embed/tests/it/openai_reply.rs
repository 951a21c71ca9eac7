//! The parser of replies: the shapes of real services, and everything else.

use base64::Engine as _;
use memory_core::{EmbeddingModel, ErrorKind};
use memory_embed::parse_embeddings_reply;
use proptest::prelude::*;
use serde_json::json;

fn model(name: &str) -> EmbeddingModel {
    EmbeddingModel { provider: "openai".into(), model: name.into(), dimensions: 3 }
}

fn parse(body: &str, texts: usize) -> memory_core::Result<Vec<Vec<f32>>> {
    parse_embeddings_reply(body.as_bytes(), &model("m"), &[], texts)
}

fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn replies_of_real_services_are_read() {
    for (service, name, body) in [
        (
            "OpenAI",
            "text-embedding-3-small",
            "{\n  \"object\": \"list\",\n  \"data\": [\n    {\n      \"object\": \"embedding\",\n      \"index\": 0,\n      \
             \"embedding\": [\n        0.0023064255,\n        -0.009327292,\n        -0.0028842222\n      ]\n    }\n  ],\n  \
             \"model\": \"text-embedding-3-small\",\n  \"usage\": {\n    \"prompt_tokens\": 8,\n    \"total_tokens\": 8\n  }\n}\n",
        ),
        (
            "Ollama",
            "all-minilm",
            r#"{"object":"list","data":[{"object":"embedding","embedding":[0.0023064255,-0.009327292,-0.0028842222],"index":0}],"model":"all-minilm","usage":{"prompt_tokens":8,"total_tokens":8}}"#,
        ),
        (
            "TEI",
            "thenlper/gte-base",
            r#"{"object":"list","data":[{"object":"embedding","embedding":[0.0023064255,-0.009327292,-0.0028842222],"index":0}],"model":"thenlper/gte-base","usage":{"prompt_tokens":4,"total_tokens":4}}"#,
        ),
        (
            "vLLM",
            "intfloat/e5-mistral-7b-instruct",
            r#"{"id":"embd-0f1e","object":"list","created":1735000000,"model":"intfloat/e5-mistral-7b-instruct","data":[{"index":0,"object":"embedding","embedding":[0.0023064255,-0.009327292,-0.0028842222]}],"usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0,"prompt_tokens_details":null}}"#,
        ),
        (
            "llama.cpp",
            "gpt-3.5-turbo",
            r#"{"model":"gpt-3.5-turbo","object":"list","usage":{"prompt_tokens":4,"total_tokens":4},"data":[{"embedding":[0.0023064255,-0.009327292,-0.0028842222],"index":0,"object":"embedding"}]}"#,
        ),
        (
            "OpenVINO, which names no model",
            "gte-large",
            r#"{"object":"list","data":[{"object":"embedding","embedding":[0.0023064255,-0.009327292,-0.0028842222],"index":0}],"usage":{"prompt_tokens":6,"total_tokens":6}}"#,
        ),
    ] {
        let vectors = parse_embeddings_reply(body.as_bytes(), &model(name), &[], 1).unwrap();
        assert_eq!(vectors, [[0.002_306_425_5_f32, -0.009_327_292, -0.002_884_222_2]], "{service}");
    }
}

#[test]
fn base64_is_little_endian_floats() {
    let body = json!({"data": [{"embedding": base64(&[1.5, -2.0, 0.0]), "index": 0}]}).to_string();
    assert_eq!(parse(&body, 1).unwrap(), [[1.5, -2.0, 0.0]]);
    for wrong in ["", "!!!!", "AAA=", "AACAPw=", &base64(&[1.0, 2.0])[..7]] {
        let body = json!({"data": [{"embedding": wrong}]}).to_string();
        assert!(parse(&body, 1).is_err(), "{wrong}");
    }
    for vector in [[f32::NAN, 1.0, 1.0], [f32::INFINITY, 1.0, 1.0], [0.0; 3]] {
        let body = json!({"data": [{"embedding": base64(&vector)}]}).to_string();
        assert_eq!(parse(&body, 1).unwrap_err().kind(), ErrorKind::Unavailable, "{vector:?}");
    }
}

#[test]
fn order_is_restored_by_index_and_wrong_indexes_are_refused() {
    let item = |index: serde_json::Value, first: u32| json!({"embedding": [first, 0, 0], "index": index});
    let of = |items: Vec<serde_json::Value>| json!({"data": items}).to_string();
    let vectors = parse(&of(vec![item(json!(2), 3), item(json!(0), 1), item(json!(1), 2)]), 3).unwrap();
    assert_eq!(vectors, [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0]]);
    let unindexed = of(vec![item(json!(null), 1), item(json!(null), 2)]);
    assert_eq!(parse(&unindexed, 2).unwrap(), [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]);
    for wrong in [
        vec![item(json!(0), 1), item(json!(0), 2)],
        vec![item(json!(1), 1), item(json!(2), 2)],
        vec![item(json!(0), 1), item(json!(null), 2)],
        vec![item(json!(0), 1), item(json!(u64::MAX), 2)],
        vec![item(json!(0), 1), item(json!(-1), 2)],
        vec![item(json!(0), 1), item(json!("1"), 2)],
        vec![item(json!(0), 1), item(json!(1.5), 2)],
    ] {
        let error = parse(&of(wrong.clone()), 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{wrong:?}");
    }
}

#[test]
fn what_is_not_one_good_vector_for_each_text_is_refused() {
    let one = r#"{"embedding": [1, 0, 0]}"#;
    for (what, body, texts) in [
        ("too few", format!(r#"{{"data": [{one}]}}"#), 2),
        ("too many", format!(r#"{{"data": [{one}, {one}, {one}]}}"#), 2),
        ("none", r#"{"data": []}"#.into(), 1),
        ("far too many", format!(r#"{{"data": [{}]}}"#, [one; 5_000].join(",")), 1),
        ("zero", r#"{"data": [{"embedding": [0, 0.0, -0.0]}]}"#.into(), 1),
        ("too big for a float", r#"{"data": [{"embedding": [1e39, 0, 0]}]}"#.into(), 1),
        ("too big for a double", r#"{"data": [{"embedding": [1e999, 0, 0]}]}"#.into(), 1),
        ("NaN", r#"{"data": [{"embedding": [NaN, 0, 0]}]}"#.into(), 1),
        ("null for NaN", r#"{"data": [{"embedding": [null, 0, 0]}]}"#.into(), 1),
        ("text", r#"{"data": [{"embedding": ["1", 0, 0]}]}"#.into(), 1),
        ("nested", r#"{"data": [{"embedding": [[1, 0, 0]]}]}"#.into(), 1),
        ("object", r#"{"data": [{"embedding": {"0": 1}}]}"#.into(), 1),
        ("no embedding", r#"{"data": [{"index": 0}]}"#.into(), 1),
        ("embedding twice", r#"{"data": [{"embedding": [1,0,0], "embedding": [1,0,0]}]}"#.into(), 1),
        ("data twice", format!(r#"{{"data": [{one}], "data": [{one}]}}"#), 1),
        ("data no list", r#"{"data": {"embedding": [1, 0, 0]}}"#.into(), 1),
        ("no data", r#"{"error": "s3cret"}"#.into(), 1),
        ("Ollama's own API", r#"{"model": "m", "embeddings": [[1, 0, 0]]}"#.into(), 1),
        ("bare list", "[[1, 0, 0]]".into(), 1),
        ("more after it", format!(r#"{{"data": [{one}]}} s3cret"#), 1),
        ("cut off", format!(r#"{{"data": [{one}"#), 1),
        ("nothing", String::new(), 1),
        ("a page", "<html>s3cret</html>".into(), 1),
        ("deep", format!(r#"{{"x": {}"#, "[".repeat(200_000)), 1),
        ("deep in data", format!(r#"{{"data": [{{"x": {}"#, "{\"y\":".repeat(50_000)), 1),
    ] {
        let error = parse(&body, texts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{what}: {error:?}");
    }
}

#[test]
fn vectors_of_another_length_are_a_mismatch_of_dimensions() {
    for length in [0_usize, 1, 2, 4, 16_384, 100_000] {
        let body = json!({"data": [{"embedding": vec![1.0; length]}]}).to_string();
        let error = parse(&body, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DimensionMismatch, "{length}: {error}");
        assert_eq!(error.details()["expected"], 3);
    }
}

#[test]
fn another_models_name_is_shown_within_bounds() {
    let name = format!("evil\n\u{7}{}", "x".repeat(10_000));
    let body = json!({"data": [{"embedding": [1, 0, 0]}], "model": name}).to_string();
    let error = parse(&body, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().len() < 400 && !error.message().contains(char::is_control), "{error}");
    for silent in [json!(null), json!("")] {
        let body = json!({"data": [{"embedding": [1, 0, 0]}], "model": silent}).to_string();
        assert!(parse(&body, 1).is_ok());
    }
}

proptest! {
    #[test]
    fn vectors_come_back_as_they_were_sent_in_both_encodings(
        vectors in prop::collection::vec(prop::array::uniform3(-1e30_f32..1e30), 1..20),
        seed in any::<u64>(),
    ) {
        prop_assume!(vectors.iter().all(|vector| vector.iter().any(|number| *number != 0.0)));
        let mut order: Vec<usize> = (0..vectors.len()).collect();
        order.rotate_left(usize::try_from(seed % 20).unwrap() % vectors.len());
        for packed in [false, true] {
            let data: Vec<_> = order.iter().map(|index| {
                let vector = vectors[*index];
                let embedding = if packed { json!(base64(&vector)) } else { json!(vector) };
                json!({"embedding": embedding, "index": index})
            }).collect();
            let body = json!({"model": "m", "data": data}).to_string();
            prop_assert_eq!(parse(&body, vectors.len()).unwrap(), vectors.clone());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), texts in 0_usize..5) {
        let _ = parse_embeddings_reply(&bytes, &model("m"), &[], texts);
    }

    #[test]
    fn a_spoilt_reply_is_never_taken_for_vectors_of_another_shape(at in 0_usize..120, byte in any::<u8>()) {
        let mut body = br#"{"object":"list","data":[{"embedding":[0.5,-0.25,1],"index":0},{"embedding":[1,2,3],"index":1}],"model":"m"}"#.to_vec();
        let place = at % body.len();
        body[place] = byte;
        if let Ok(vectors) = parse_embeddings_reply(&body, &model("m"), &[], 2) {
            prop_assert_eq!(vectors.len(), 2);
            prop_assert!(vectors.iter().all(|vector| vector.len() == 3 && vector.iter().all(|x| x.is_finite())));
        }
    }
}
