//! Reads structs from objects only. Serde's derived code also accepts an array of the members, so `["acme", "agent",
//! "ann"]` would be a scope and the order of a struct's fields part of every interface.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

/// Reads JSON as [`serde_json::from_str`] does, but refuses an array in place of an object, at any depth.
///
/// It does not see into what serde buffers: untagged and internally tagged enums.
///
/// # Errors
/// Those of serde_json.
pub fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(ByName(&mut json))?;
    json.end()?;
    Ok(value)
}

/// A deserializer, or part of one, that refuses an array in place of an object; see [`from_str`].
#[derive(Debug)]
pub struct ByName<T>(pub T);

macro_rules! pass_on {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* ByName(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ByName<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_map(visitor)
    }

    pass_on! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {
        $(fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ByName<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(ByName(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(ByName(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(ByName(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ByName(members))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(ByName(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for ByName<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(ByName(value))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(ByName(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(ByName(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(ByName(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for ByName<A> {
    type Error = A::Error;
    type Variant = ByName<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(ByName(seed)).map(|(name, variant)| (name, ByName(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(ByName(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, ByName(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.newtype_variant_seed(Members(visitor))
    }
}

/// Reads a map.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Members<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        value.deserialize_map(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        text: &'a str,
        number: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Outer<'a> {
        Unit,
        Pair(u8, bool),
        #[serde(borrow)]
        Many(Vec<Inner<'a>>),
        Maybe {
            inner: Option<Inner<'a>>,
        },
        Named(BTreeMap<String, Inner<'a>>),
    }

    #[test]
    fn what_is_written_by_name_is_read_as_serde_json_reads_it() {
        for text in [
            r#""unit""#,
            r#"{"pair":[1,true]}"#,
            r#"{"many":[{"text":"a"},{"number":7},{}]}"#,
            r#"{"maybe":{"inner":{"text":"a","number":null,"else":[1]}}}"#,
            r#"{"maybe":{"inner":null}}"#,
            r#"{"named":{"a":{"text":"b"}}}"#,
        ] {
            assert_eq!(from_str::<Outer<'_>>(text).unwrap(), serde_json::from_str(text).unwrap(), "{text}");
        }
        assert_eq!(from_str::<&RawValue>("[1, 2]").unwrap().get(), "[1, 2]");
        assert!(from_str::<u8>("1 2").is_err());
    }

    #[test]
    fn an_array_of_members_is_refused_at_any_depth() {
        for text in [
            r#"{"many":[["a",7]]}"#,
            r#"{"maybe":[{"text":"a"}]}"#,
            r#"{"maybe":{"inner":["a",7]}}"#,
            r#"{"named":{"a":["b",null]}}"#,
        ] {
            serde_json::from_str::<Outer<'_>>(text).unwrap();
            let error = from_str::<Outer<'_>>(text).unwrap_err().to_string();
            assert!(error.starts_with("invalid type: sequence"), "{error}");
        }
    }
}
