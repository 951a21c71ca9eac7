//! A static model from a folder: its identity, its vectors, and the files that are refused.

use std::path::{Path, PathBuf};

use memory_core::embed::{check_embeddings, cosine};
use memory_core::{EmbedRole, Embedder, ErrorKind, Retry};
use memory_embed::{MAX_CONFIG_BYTES, STATIC_PROVIDER, StaticEmbedder, StaticOptions};
use proptest::prelude::*;

const CONFIG: &str = r#"{"normalize": true}"#;
const TOKENIZER: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "[UNK]",
              "vocab": {"[UNK]": 0, "cat": 1, "dog": 2, "kitten": 3, "car": 4}}}"#;
/// The same tokens as BERT's kind of model cuts them, which is what published static models mostly use.
const WORD_PIECE: &str = r###"{
    "version": "1.0", "truncation": {"max_length": 1}, "padding": null,
    "added_tokens": [{"id": 0, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[UNK]": 0, "cat": 1, "dog": 2, "##ten": 3, "car": 4}}}"###;
/// And as SentencePiece's unigram model, which multilingual ones use.
const UNIGRAM: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    "post_processor": null, "decoder": null,
    "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
              "vocab": [["<unk>", 0.0], ["▁cat", -1.0], ["▁dog", -1.5], ["▁kitten", -2.0], ["▁car", -2.5]]}}"#;
/// A row for each of the five tokens.
const ROWS: [[f32; 3]; 5] =
    [[9.0, 9.0, 9.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.8, 0.2, 0.0], [0.0, 0.0, 2.0]];

/// `name`, dtype, shape, data of each tensor, as the format has them: the header's length, the header, the data.
fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend_from_slice(bytes);
        let place = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert((*name).to_owned(), place);
    }
    let header = serde_json::to_string(&header).unwrap();
    let mut file = u64::try_from(header.len()).unwrap().to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

fn bytes(numbers: &[[f32; 3]]) -> Vec<u8> {
    numbers.iter().flatten().flat_map(|x| x.to_le_bytes()).collect()
}

fn weights() -> Vec<u8> {
    safetensors(&[("embeddings", "F32", &[5, 3], bytes(&ROWS))])
}

fn integers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// A folder named `tiny` with a model's files.
struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = Self { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir(folder.path()).unwrap();
        folder.write("config.json", CONFIG.as_bytes());
        folder.write("tokenizer.json", TOKENIZER.as_bytes());
        folder.write("model.safetensors", &weights());
        folder
    }

    fn with(name: &str, contents: &[u8]) -> Self {
        let folder = Self::new();
        folder.write(name, contents);
        folder
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("tiny")
    }

    fn write(&self, name: &str, contents: &[u8]) {
        std::fs::write(self.path().join(name), contents).unwrap();
    }

    fn load(&self) -> memory_core::Result<StaticEmbedder> {
        StaticEmbedder::load(self.path(), &StaticOptions::default())
    }
}

async fn vector(embedder: &StaticEmbedder, text: &str) -> Vec<f32> {
    embedder.embed(&[text], EmbedRole::Document).await.unwrap().pop().unwrap()
}

#[tokio::test]
async fn a_text_is_the_mean_of_its_tokens_at_unit_length() {
    let embedder = Folder::new().load().unwrap();
    let cat_and_dog = vector(&embedder, "Cat dog").await;
    let half = 0.5_f32.sqrt();
    for (actual, expected) in cat_and_dog.iter().zip([half, half, 0.0]) {
        assert!((actual - expected).abs() < 1e-6, "{cat_and_dog:?}");
    }
    assert!(
        cosine(&vector(&embedder, "cat").await, &vector(&embedder, "kitten").await)
            > cosine(&vector(&embedder, "cat").await, &vector(&embedder, "dog").await)
    );
}

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts_and_pass_the_contract() {
    let embedder = Folder::new().load().unwrap();
    let texts = ["dog", "cat", "car", "dog"].repeat(20);
    let vectors = embedder.embed(&texts, EmbedRole::Document).await.unwrap();
    check_embeddings(embedder.model(), texts.len(), &vectors).unwrap();
    for (text, embedded) in texts.iter().zip(&vectors) {
        assert_eq!(*embedded, vector(&embedder, text).await, "{text}");
    }
    assert!(embedder.embed(&[], EmbedRole::Query).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_tokenizers_of_published_models_cut_as_they_should() {
    let word_piece = Folder::with("tokenizer.json", WORD_PIECE.as_bytes()).load().unwrap();
    let unigram = Folder::with("tokenizer.json", UNIGRAM.as_bytes()).load().unwrap();
    for embedder in [&word_piece, &unigram] {
        let both = vector(embedder, "cat dog").await;
        assert!((both[0] - both[1]).abs() < 1e-6 && both[2].abs() < 1e-6, "{both:?}");
    }
    // `carten` is `car` and `##ten`; a limit of the tokenizer's own does not cut it to one token.
    let parts = vector(&word_piece, "Carten").await;
    assert!(parts[0] > 0.0 && parts[2] > 0.0, "{parts:?}");
    assert_eq!(
        unigram.embed(&["zebra"], EmbedRole::Query).await.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[tokio::test]
async fn unknown_words_say_nothing_beside_known_ones() {
    let embedder = Folder::new().load().unwrap();
    assert_eq!(vector(&embedder, "zebra cat quagga").await, vector(&embedder, "cat").await);
}

#[tokio::test]
async fn a_text_of_unknown_words_alone_is_refused_by_its_place_and_never_asked_again() {
    let embedder = Folder::new().load().unwrap();
    for text in ["zebra", "", "  \n", "\u{0}"] {
        let error = embedder.embed(&["cat", text], EmbedRole::Document).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.retry(), Retry::Never);
        assert_eq!(error.details().get("index").and_then(serde_json::Value::as_u64), Some(1));
        assert!(!error.to_string().contains("zebra"), "{error}");
    }
}

#[tokio::test]
async fn of_a_long_text_the_beginning_counts() {
    let embedder = Folder::new().load().unwrap();
    let long = format!("{}{}", "cat ".repeat(600), "dog ".repeat(1_000_000));
    assert_eq!(vector(&embedder, &long).await, vector(&embedder, "cat").await);
}

#[test]
fn the_identity_is_the_name_and_whatever_decides_the_vectors() {
    let plain = Folder::new();
    let identity = |folder: &Folder| folder.load().unwrap().model().clone();
    let model = identity(&plain);
    assert_eq!((model.provider.as_str(), model.dimensions), (STATIC_PROVIDER, 3));
    let (name, digest) = model.model.split_once('@').unwrap();
    assert_eq!(name, "tiny");
    assert!(digest.len() == 12 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    assert_eq!(identity(&Folder::new()), model);

    let mut other = ROWS;
    other[1][2] = 0.001;
    let reweighted = safetensors(&[("embeddings", "F32", &[5, 3], bytes(&other))]);
    let retokenised = TOKENIZER.replace("\"car\"", "\"cart\"");
    for changed in [
        Folder::with("model.safetensors", &reweighted),
        Folder::with("tokenizer.json", retokenised.as_bytes()),
        Folder::with("config.json", br#"{"normalize": false}"#),
    ] {
        assert_ne!(identity(&changed), model);
    }
    let commented = Folder::with("config.json", br#"{"normalize": true, "license": "MIT"}"#);
    assert_eq!(identity(&commented), model);

    let named = StaticEmbedder::load(plain.path(), &StaticOptions::default().with_name("mine")).unwrap();
    assert_eq!(named.model().model, format!("mine@{digest}"));
}

#[test]
fn dimensions_that_were_promised_are_checked() {
    let folder = Folder::new();
    let load = |dimensions| {
        StaticEmbedder::load(folder.path(), &StaticOptions::default().with_dimensions(dimensions))
    };
    assert_eq!(load(3).unwrap().model().dimensions, 3);
    let error = load(256).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DimensionMismatch);
    assert_eq!(error.details()["expected"], 256);
    assert_eq!(error.details()["actual"], 3);
}

#[test]
fn names_out_of_range_are_refused_before_anything_is_read() {
    for name in [String::new(), "a\nb".to_owned(), "x".repeat(129)] {
        let options = StaticOptions::default().with_name(name);
        let error = StaticEmbedder::load("/no/such/folder", &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_missing_file_is_not_found_and_the_error_says_what_a_model_is() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let folder = Folder::new();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        let error = folder.load().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(name) && error.to_string().contains("folder with"), "{error}");
    }
    let folder = Folder::new();
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    std::fs::create_dir(folder.path().join("config.json")).unwrap();
    assert_eq!(folder.load().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    let folder = Folder::new();
    let pipe = folder.path().join("tokenizer.json");
    std::fs::remove_file(&pipe).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = folder.load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("is not a file"), "{error}");
}

#[test]
fn a_file_over_its_limit_is_refused() {
    let folder = Folder::new();
    let file = std::fs::File::create(folder.path().join("config.json")).unwrap();
    file.set_len(MAX_CONFIG_BYTES + 1).unwrap();
    assert_eq!(folder.load().unwrap_err().kind(), ErrorKind::TooLarge);
}

/// Refused as the caller's mistake, with the name of the file in the error.
fn refused(name: &str, contents: &[u8], why: &str) {
    let error = Folder::with(name, contents).load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{why}: {error}");
    assert!(error.to_string().contains(why), "{why}: {error}");
}

#[test]
fn weights_that_would_break_the_model_are_refused() {
    let good = weights();
    for (file, why) in [
        (Vec::new(), "ends before its header"),
        (u64::MAX.to_le_bytes().to_vec(), "header is over 1 MiB"),
        ([200_u64.to_le_bytes().as_slice(), b"{}"].concat(), "header is longer than the file"),
        (good[..good.len() - 1].to_vec(), "contradict each other"),
        ([good.as_slice(), b"more"].concat(), "contradict each other"),
        (safetensors(&[("vectors", "F32", &[5, 3], bytes(&ROWS))]), "no tensor named"),
        (safetensors(&[("embeddings", "F32", &[15], bytes(&ROWS))]), "two dimensions"),
        (safetensors(&[("embeddings", "F32", &[0, 3], Vec::new())]), "at least one row"),
        (safetensors(&[("embeddings", "F32", &[5, 0], Vec::new())]), "at least one row"),
        (safetensors(&[("embeddings", "I32", &[5, 3], bytes(&ROWS))]), "is I32; it must be"),
        (safetensors(&[("embeddings", "F32", &[4, 3], bytes(&ROWS[..4]))]), "of different models"),
        (
            safetensors(&[("embeddings", "F16", &[5, 3], [0x7E00_u16.to_le_bytes(); 15].concat())]),
            "not a finite",
        ),
    ] {
        refused("model.safetensors", &file, why);
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut rows = ROWS;
        rows[4][2] = bad;
        let file = safetensors(&[("embeddings", "F32", &[5, 3], bytes(&rows))]);
        refused("model.safetensors", &file, "not a finite");
    }
}

#[tokio::test]
async fn a_mapping_shares_rows_and_must_stay_inside_the_table() {
    let mapped = |mapping: &[i64]| {
        safetensors(&[
            ("embeddings", "F32", &[4, 3], bytes(&ROWS[..4])),
            ("mapping", "I64", &[mapping.len()], integers(mapping)),
        ])
    };
    // `car` shares the row of `dog`.
    let folder = Folder::with("model.safetensors", &mapped(&[0, 1, 2, 3, 2]));
    let embedder = folder.load().unwrap();
    assert_eq!(vector(&embedder, "car").await, vector(&embedder, "dog").await);

    refused("model.safetensors", &mapped(&[0, 1, 2, 3, 4]), "a row that is not there");
    refused("model.safetensors", &mapped(&[0, 1, 2, 3, -1]), "a row that is not there");
    refused("model.safetensors", &mapped(&[0, 1]), "of different models");
}

#[tokio::test]
async fn weights_of_tokens_count_and_a_sum_beyond_f32_is_an_error() {
    let weighted = |weights: [f32; 5]| {
        safetensors(&[
            ("embeddings", "F32", &[5, 3], bytes(&ROWS)),
            ("weights", "F32", &[5], weights.iter().flat_map(|x| x.to_le_bytes()).collect()),
        ])
    };
    let folder = Folder::with("model.safetensors", &weighted([1.0, 3.0, 1.0, 1.0, 1.0]));
    let embedder = folder.load().unwrap();
    let both = vector(&embedder, "cat dog").await;
    assert!((both[0] / both[1] - 3.0).abs() < 1e-5, "{both:?}");

    let folder = Folder::with("model.safetensors", &weighted([1.0, 1.0, 1.0, 1.0, f32::MAX]));
    let error = folder.load().unwrap().embed(&["car"], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn tokenizers_that_are_malformed_or_nest_like_a_bomb_are_refused() {
    let nested = |levels: usize| {
        let open = r#"{"type": "Sequence", "normalizers": ["#.repeat(levels);
        TOKENIZER.replace(r#"{"type": "Lowercase"}"#, &format!("{open}{}", "]}".repeat(levels)))
    };
    refused("tokenizer.json", b"", "not a tokenizer");
    refused("tokenizer.json", b"{}", "not a tokenizer");
    refused("tokenizer.json", &TOKENIZER.as_bytes()[..100], "not a tokenizer");
    refused("tokenizer.json", nested(20).as_bytes(), "nests deeper");
    refused("tokenizer.json", nested(1_000_000).as_bytes(), "nests deeper");
    refused("tokenizer.json", TOKENIZER.replace("WordLevel", "Oracle").as_bytes(), "cannot be built");
    refused("tokenizer.json", TOKENIZER.replace("\"[UNK]\": 0, ", "").as_bytes(), "cannot be built");
    refused("config.json", b"normalize = true", "config.json");
    refused("config.json", br#"{"normalize": "yes"}"#, "config.json");
}

#[tokio::test]
async fn a_pattern_that_backtracks_without_end_is_an_error_of_the_text() {
    let folder = Folder::with(
        "tokenizer.json",
        TOKENIZER
            .replace(
                r#"{"type": "Whitespace"}"#,
                r#"{"type": "Split", "pattern": {"Regex": "(?:(a+)+)(?=\\1b)"}, "behavior": "Isolated", "invert": false}"#,
            )
            .as_bytes(),
    );
    let embedder = folder.load().unwrap();
    let error = embedder.embed(&[&"a".repeat(400)], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_change_of_a_file_makes_loading_or_embedding_panic(
        which in 0..5_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let (name, mut contents) = [
            ("config.json", CONFIG.as_bytes().to_vec()),
            ("tokenizer.json", TOKENIZER.as_bytes().to_vec()),
            ("tokenizer.json", WORD_PIECE.as_bytes().to_vec()),
            ("tokenizer.json", UNIGRAM.as_bytes().to_vec()),
            ("model.safetensors", weights()),
        ][which].clone();
        let at = at.index(contents.len());
        if cut { contents.truncate(at) } else { contents[at] = byte }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        if let Ok(embedder) = Folder::with(name, &contents).load()
            && let Ok(vectors) = runtime.block_on(embedder.embed(&["cat dog", "car"], EmbedRole::Query))
        {
            prop_assert!(check_embeddings(embedder.model(), 2, &vectors).is_ok());
        }
    }
}

/// The folder that `MEMORY_TEST_MODEL` names, or `None` with a printed reason.
fn real_model() -> Option<PathBuf> {
    let folder = std::env::var_os("MEMORY_TEST_MODEL").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: MEMORY_TEST_MODEL names no folder with a static model (cargo xtask model)");
    }
    folder
}

#[tokio::test]
async fn a_real_model_finds_meaning_without_a_word_in_common() {
    let Some(folder) = real_model() else { return };
    let embedder = StaticEmbedder::load(Path::new(&folder), &StaticOptions::default()).unwrap();
    let question = vector(&embedder, "Which animals live in her house?").await;
    let about = |text: &'static str| {
        let (embedder, question) = (&embedder, &question);
        async move { cosine(question, &vector(embedder, text).await) }
    };
    let pets = about("Maria adopted two kittens and a puppy").await;
    for other in ["The invoice is due on Friday", "Turn left after the bridge", "He plays the cello"] {
        assert!(pets > about(other).await, "{other}");
    }
    let empty = embedder.embed(&[""], EmbedRole::Query).await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::InvalidArgument);
}
