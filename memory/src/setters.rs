//! Methods that set one field each.

/// In an `impl` block, `with_field(field: Type);` becomes a method that sets the field of that name.
macro_rules! setters {
    ($($(#[$about:meta])* $name:ident($field:ident: $type:ty);)*) => {$(
        $(#[$about])*
        #[must_use]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

pub(crate) use setters;
