//! A flat list of any parser's syntax tree.
//!
//! It is built by the tree's own `Serialize`, which every type derives, so that no field can be missed, unlike with a
//! visitor. Being flat, it is dropped without recursion.

use std::fmt;

use serde::ser::{self, Serialize};

/// A node and the end of its subtree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its field in the parent struct; empty elsewhere.
    pub(crate) field: &'static str,
    /// The type's name; empty for sequences, tuples and plain values.
    pub(crate) ty: &'static str,
    /// The variant, if the type is an enumeration.
    pub(crate) variant: &'static str,
    /// Its own value.
    pub(crate) value: Value,
    /// The index after its last descendant.
    end: u32,
}

/// What a leaf holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Nothing: it has children, or it is an empty sequence, or a unit.
    Nothing,
    /// `None`.
    Absent,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text; empty for literals.
    Str(Box<str>),
    /// A place in the text: line and column from 1; zeros if unknown.
    At(u32, u32),
}

/// The nodes, parents before children.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Reads a whole value.
    pub(crate) fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Unreadable> {
        let mut builder = Builder { tree: Self::default(), field: "" };
        value.serialize(&mut builder)?;
        Ok(builder.tree)
    }

    /// A node; an empty one beyond the end.
    pub(crate) fn node(&self, at: usize) -> &Node {
        const NONE: &Node = &Node { field: "", ty: "", variant: "", value: Value::Absent, end: u32::MAX };
        self.nodes.get(at).unwrap_or(NONE)
    }

    /// The index after a node's last descendant.
    pub(crate) fn end(&self, at: usize) -> usize {
        usize::try_from(self.node(at).end).unwrap_or(usize::MAX).min(self.nodes.len())
    }

    /// The indices of a node's children.
    pub(crate) fn children(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.end(at);
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.end(child);
                child
            })
        })
    }

    /// The child in a field.
    pub(crate) fn field(&self, at: usize, field: &str) -> Option<usize> {
        self.children(at).find(|child| self.node(*child).field == field)
    }

    /// Whether it is empty: absent, false, zero, an empty text or sequence, or a struct of such.
    pub(crate) fn is_empty(&self, at: usize) -> bool {
        let node = self.node(at);
        match &node.value {
            Value::Absent | Value::Bool(false) | Value::Int(0) | Value::At(..) => true,
            Value::Str(text) => text.is_empty(),
            Value::Bool(true) | Value::Int(_) => false,
            Value::Nothing => {
                node.variant.is_empty()
                    && self.children(at).all(|child| self.is_empty(child))
                    && !self.is_list(at)
            }
        }
    }

    /// Whether it is a non-empty sequence.
    fn is_list(&self, at: usize) -> bool {
        let node = self.node(at);
        node.ty.is_empty() && self.end(at) > at + 1
    }

    /// The text in a leaf.
    pub(crate) fn str(&self, at: usize) -> Option<&str> {
        match &self.node(at).value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The text in a field.
    pub(crate) fn field_str(&self, at: usize, field: &str) -> Option<&str> {
        self.field(at, field).and_then(|child| self.str(child))
    }

    /// Whether a field is true.
    pub(crate) fn field_true(&self, at: usize, field: &str) -> bool {
        self.field(at, field).is_some_and(|child| self.node(child).value == Value::Bool(true))
    }

    /// The first node of the type at or below one.
    pub(crate) fn first(&self, at: usize, ty: &str) -> Option<usize> {
        (at..self.end(at)).find(|index| self.node(*index).ty == ty)
    }
}

/// A tree that cannot be read; no parser produces one.
#[derive(Debug)]
pub(crate) struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl ser::Error for Unreadable {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct Builder {
    tree: Tree,
    /// The field whose value comes next.
    field: &'static str,
}

impl Builder {
    fn open(&mut self, ty: &'static str, variant: &'static str, value: Value) -> usize {
        let field = std::mem::take(&mut self.field);
        let at = self.tree.nodes.len();
        self.tree.nodes.push(Node { field, ty, variant, value, end: 0 });
        self.close(at);
        at
    }

    fn close(&mut self, at: usize) {
        // The text is capped, so it has fewer than 2^32 nodes.
        let end = u32::try_from(self.tree.nodes.len()).unwrap_or(u32::MAX);
        if let Some(node) = self.tree.nodes.get_mut(at) {
            node.end = end;
        }
    }

    fn leaf(&mut self, value: Value) -> Result<(), Unreadable> {
        self.open("", "", value);
        Ok(())
    }
}

/// Descends one level of a tree, growing the stack if little is left: frames are large in unoptimised builds.
pub(crate) fn deep<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(256 << 10, 4 << 20, step)
}

/// How to treat the children of a node.
#[derive(Clone, Copy, PartialEq)]
enum Children {
    /// They become nodes.
    Kept,
    /// Left out: the text of literals, tokens kept only for their places.
    Skipped,
    /// Only the start of a span.
    Start,
    /// A place is one node.
    Place,
}

/// A node with pending children.
struct Open<'b> {
    builder: &'b mut Builder,
    at: usize,
    children: Children,
}

impl<'b> Open<'b> {
    fn new(builder: &'b mut Builder, ty: &'static str, variant: &'static str) -> Self {
        let children = match ty {
            "Location" => Children::Place,
            "Span" => Children::Start,
            "Value" | "AttachedToken" => Children::Skipped,
            _ => Children::Kept,
        };
        if children == Children::Start {
            // The place represents the span.
            return Self { at: usize::MAX, builder, children };
        }
        let place = children == Children::Place;
        let at = builder.open(ty, variant, if place { Value::At(0, 0) } else { Value::Nothing });
        Self { builder, at, children }
    }

    fn child<T: Serialize + ?Sized>(&mut self, field: &'static str, value: &T) -> Result<(), Unreadable> {
        self.descend(field, &mut |builder| value.serialize(builder))
    }

    /// Not generic: the tree has hundreds of types, and each would get its own copy.
    fn descend(
        &mut self,
        field: &'static str,
        value: &mut dyn FnMut(&mut Builder) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        match self.children {
            Children::Skipped => return Ok(()),
            Children::Start if field != "start" => return Ok(()),
            Children::Kept | Children::Start | Children::Place => {}
        }
        self.builder.field = field;
        let at = self.builder.tree.nodes.len();
        deep(|| value(self.builder))?;
        let nodes = &mut self.builder.tree.nodes;
        if self.children == Children::Kept && !field.is_empty() && nodes.len() == at + 1 {
            // Most fields of most nodes are empty, and left out.
            let empty = nodes.last().is_some_and(|node| match &node.value {
                Value::Nothing => node.ty.is_empty(),
                Value::Absent | Value::Bool(false) | Value::Int(0) => true,
                Value::Str(text) => text.is_empty(),
                Value::Bool(true) | Value::Int(_) | Value::At(..) => false,
            });
            if empty {
                nodes.pop();
            }
        }
        if self.children == Children::Place {
            let Some(Value::Int(number)) = self.builder.tree.nodes.pop().map(|node| node.value) else {
                return Ok(());
            };
            let number = u32::try_from(number).unwrap_or(0);
            if let Some(Node { value: Value::At(line, column), .. }) =
                self.builder.tree.nodes.get_mut(self.at)
            {
                *(if field == "line" { line } else { column }) = number;
            }
        }
        Ok(())
    }

    fn close(self) -> Result<(), Unreadable> {
        self.builder.close(self.at);
        Ok(())
    }
}

macro_rules! leaves {
    ($($method:ident($value:ident: $type:ty) => $leaf:expr;)*) => { $(
        fn $method(self, $value: $type) -> Result<(), Unreadable> {
            self.leaf($leaf)
        }
    )* };
}

impl<'b> ser::Serializer for &'b mut Builder {
    type Ok = ();
    type Error = Unreadable;
    type SerializeSeq = Open<'b>;
    type SerializeTuple = Open<'b>;
    type SerializeTupleStruct = Open<'b>;
    type SerializeTupleVariant = Open<'b>;
    type SerializeMap = Open<'b>;
    type SerializeStruct = Open<'b>;
    type SerializeStructVariant = Open<'b>;

    leaves! {
        serialize_bool(value: bool) => Value::Bool(value);
        serialize_i8(value: i8) => Value::Int(value.into());
        serialize_i16(value: i16) => Value::Int(value.into());
        serialize_i32(value: i32) => Value::Int(value.into());
        serialize_i64(value: i64) => Value::Int(value);
        serialize_u8(value: u8) => Value::Int(value.into());
        serialize_u16(value: u16) => Value::Int(value.into());
        serialize_u32(value: u32) => Value::Int(value.into());
        serialize_u64(value: u64) => Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        serialize_f32(value: f32) => Value::Str(value.to_string().into());
        serialize_f64(value: f64) => Value::Str(value.to_string().into());
        serialize_char(value: char) => Value::Str(value.to_string().into());
        serialize_str(value: &str) => Value::Str(value.into());
        serialize_bytes(value: &[u8]) => Value::Str(String::from_utf8_lossy(value).into());
    }

    fn serialize_none(self) -> Result<(), Unreadable> {
        self.leaf(Value::Absent)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unreadable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unreadable> {
        self.leaf(Value::Absent)
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Unreadable> {
        self.open(name, "", Value::Nothing);
        Ok(())
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Unreadable> {
        self.open(name, variant, Value::Nothing);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unreadable> {
        let mut open = Open::new(self, name, "");
        open.child("0", value)?;
        open.close()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Unreadable> {
        let mut open = Open::new(self, name, variant);
        open.child("0", value)?;
        open.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, "", ""))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, "", ""))
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, name, ""))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, name, variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, "", ""))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, name, ""))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'b>, Unreadable> {
        Ok(Open::new(self, name, variant))
    }
}

macro_rules! numbered {
    ($($of:ident $method:ident)*) => { $(
        impl ser::$of for Open<'_> {
            type Ok = ();
            type Error = Unreadable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unreadable> {
                self.child("", value)
            }

            fn end(self) -> Result<(), Unreadable> {
                self.close()
            }
        }
    )* };
}

macro_rules! named {
    ($($of:ident)*) => { $(
        impl ser::$of for Open<'_> {
            type Ok = ();
            type Error = Unreadable;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                field: &'static str,
                value: &T,
            ) -> Result<(), Unreadable> {
                self.child(field, value)
            }

            fn end(self) -> Result<(), Unreadable> {
                self.close()
            }
        }
    )* };
}

numbered! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}
named! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Unreadable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unreadable> {
        self.child("key", key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unreadable> {
        self.child("value", value)
    }

    fn end(self) -> Result<(), Unreadable> {
        self.close()
    }
}
