//! From the bytes of a reply to vectors, without trusting a byte of it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::embed::check_embeddings;
use memory_core::{EmbeddingModel, Error, Result, Retry};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::options::MAX_DIMENSIONS;

/// Longest name of a model that an error repeats, in characters.
const MAX_SHOWN_CHARS: usize = 100;

/// The vectors of a reply to `texts` texts, in the order of the texts.
///
/// Takes what OpenAI, Ollama, vLLM, TEI, llama.cpp and OpenVINO send: `{"data": [{"embedding": [0.1, …],
/// "index": 0}], "model": "…"}`, the vector perhaps in base64, other members ignored, `index` and
/// `model` perhaps absent. Never panics, and takes memory in proportion to `body`.
///
/// # Errors
/// `unavailable` for anything that is not such a reply, for another number of vectors, for indexes that
/// are not those of the texts, for zero or non-finite vectors, and for a model that is neither asked for
/// nor in `accept_model`; `dimension_mismatch` for vectors of another length. No text of the reply but
/// a model's name is repeated.
pub fn parse_embeddings_reply(
    body: &[u8],
    asked: &EmbeddingModel,
    accept_model: &[String],
    texts: usize,
) -> Result<Vec<Vec<f32>>> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let reply = Top { texts }
        .deserialize(&mut deserializer)
        .and_then(|reply| deserializer.end().map(|()| reply))
        .map_err(|error| malformed(&error))?;
    if let Some(name) = reply.model.filter(|name| !name.is_empty()) {
        check_model(&name, asked, accept_model)?;
    }
    let Some(items) = reply.data else {
        return Err(refused("has no `data`; check that the base URL leads to an embeddings API"));
    };
    if items.len() > texts {
        return Err(refused(&format!("has more vectors than the {texts} texts asked for")));
    }
    let vectors = in_order(items)?;
    check_embeddings(asked, texts, &vectors)?;
    Ok(vectors)
}

/// Restores the order of the texts, where the reply says it.
fn in_order(items: Vec<Item>) -> Result<Vec<Vec<f32>>> {
    let indexed = items.iter().filter(|item| item.index.is_some()).count();
    if indexed == 0 {
        return Ok(items.into_iter().map(|item| item.vector).collect());
    }
    let wrong = || refused("gives indexes that are not those of the texts");
    if indexed != items.len() {
        return Err(wrong());
    }
    let mut places: Vec<Option<Vec<f32>>> = items.iter().map(|_| None).collect();
    for item in items {
        let index = item.index.and_then(|index| usize::try_from(index).ok()).ok_or_else(wrong)?;
        match places.get_mut(index) {
            Some(place @ None) => *place = Some(item.vector),
            _ => return Err(wrong()),
        }
    }
    places.into_iter().map(|place| place.ok_or_else(wrong)).collect()
}

fn check_model(answered: &str, asked: &EmbeddingModel, accept: &[String]) -> Result<()> {
    if answered == asked.model || accept.iter().any(|name| name == answered) {
        return Ok(());
    }
    let shown: String = answered.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_CHARS).collect();
    Err(refused(&format!(
        "comes from the model `{shown}`, not from `{}`; if both are the same, list it in `accept_model`",
        asked.model
    ))
    .with_detail("asked", asked.model.clone())
    .with_detail("answered", shown)
    .with_retry(Retry::Never))
}

fn refused(why: &str) -> Error {
    Error::unavailable(format!("the embedder's reply {why}"))
}

/// The place of a syntax error, and nothing of the text there.
fn malformed(error: &serde_json::Error) -> Error {
    let what = match error.classify() {
        serde_json::error::Category::Data => "is not of the shape of an embeddings API",
        serde_json::error::Category::Eof => "ends early",
        _ => "is not JSON",
    };
    refused(&format!(
        "{what} (line {}, column {}); check the base URL and the service's version",
        error.line(),
        error.column()
    ))
}

/// The part of a reply that is read.
struct Wire {
    data: Option<Vec<Item>>,
    model: Option<String>,
}

struct Item {
    vector: Vec<f32>,
    index: Option<u64>,
}

/// The object itself. By hand, so that what a hostile reply repeats or nests is dropped while it is read.
struct Top {
    texts: usize,
}

impl<'de> DeserializeSeed<'de> for Top {
    type Value = Wire;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Wire, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top {
    type Value = Wire;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `data`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Wire, A::Error> {
        let mut wire = Wire { data: None, model: None };
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "data" if wire.data.is_none() => {
                    wire.data = Some(map.next_value_seed(Items { texts: self.texts })?);
                }
                "model" if wire.model.is_none() => wire.model = map.next_value()?,
                "data" | "model" => return Err(serde::de::Error::custom("a member twice")),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(wire)
    }
}

struct Items {
    texts: usize,
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<Item>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Vec<Item>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Item>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of embeddings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vec<Item>, A::Error> {
        let mut items = Vec::new();
        // One more than asked for is enough to know that there are too many.
        while items.len() <= self.texts {
            match seq.next_element_seed(OneItem)? {
                Some(item) => items.push(item),
                None => return Ok(items),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

struct OneItem;

impl<'de> DeserializeSeed<'de> for OneItem {
    type Value = Item;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Item, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneItem {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `embedding`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Item, A::Error> {
        let (mut vector, mut index) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "embedding" if vector.is_none() => vector = Some(map.next_value_seed(Numbers)?),
                "index" if index.is_none() => index = map.next_value::<Option<u64>>()?,
                "embedding" | "index" => return Err(serde::de::Error::custom("a member twice")),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let vector = vector.ok_or_else(|| serde::de::Error::missing_field("embedding"))?;
        Ok(Item { vector, index })
    }
}

/// A vector, as numbers or in base64.
struct Numbers;

impl<'de> DeserializeSeed<'de> for Numbers {
    type Value = Vec<f32>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Vec<f32>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers {
    type Value = Vec<f32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers, or base64")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Vec<f32>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = seq.next_element()? {
            if numbers.len() > MAX_DIMENSIONS {
                // No model has as many; the length alone is what the check after will name.
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Vec<f32>, E> {
        let bytes = STANDARD.decode(text).map_err(|_| E::custom("not base64"))?;
        let (floats, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() || floats.len() > MAX_DIMENSIONS {
            return Err(E::custom("not 32-bit floats"));
        }
        Ok(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
