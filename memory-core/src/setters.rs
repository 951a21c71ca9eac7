//! Methods that set one field each.

/// In an `impl` block, `with_field(field: Type);` becomes a method that sets the field of that name; `=> value` sets it
/// to that value.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$about:meta])* $name:ident($field:ident: $type:ty $(=> $value:expr)?);)*) => {$(
        #[doc = concat!("Sets `", stringify!($field), "`.")]
        $(#[$about])*
        #[must_use]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $crate::setters!(@ $field $($value)?);
            self
        }
    )*};
    (@ $field:ident) => { $field };
    (@ $field:ident $value:expr) => { $value };
}
