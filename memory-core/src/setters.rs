//! Generates builder methods.

/// Gives a type methods that set one field each: `with_x(field: Type)`, or `with_x(field: Type) as Some` for an
/// optional field.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $method:ident($field:ident: $value:ty) $(as $wrap:ident)?;)* }) => {
        impl $type { $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $field: $value) -> Self {
                self.$field = $($wrap)? ($field);
                self
            }
        )* }
    };
}

pub(crate) use setters;
