//! Handlers, which are structs of references to parts of the state.

/// Makes a handler of the list of its keys: the struct, and `of`, which takes them from all parts.
/// The fields are all that the handler may read or change.
macro_rules! handler {
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident of $parts:ident { $($key:ident: $part:ty,)* }
    ) => {
        $(#[$doc])*
        $vis struct $name<'a> {
            $($vis $key: $part,)*
        }

        impl<'a> $name<'a> {
            /// With these keys.
            $vis fn of(parts: &'a mut $parts<'_>) -> Self {
                $name {
                    $($key: parts.$key,)*
                }
            }
        }
    };
}

pub(crate) use handler;
