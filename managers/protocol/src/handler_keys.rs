//! Handlers, which are structs of references to parts of the state.

/// Makes the struct of all parts of a state, and the module `keys`, which names their types by the
/// parts. With a lifetime, the struct has references to parts that are elsewhere.
#[macro_export]
macro_rules! parts {
    ($vis:vis keys { $($part:ident: $type:ty,)* }) => {
        #[allow(non_camel_case_types)]
        $vis mod keys {
            use super::*;

            $(pub type $part = $type;)*
        }
    };
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident { $($(#[$part_doc:meta])* $part:ident: $type:ty,)* }
    ) => {
        $(#[$doc])*
        $vis struct $name {
            $($(#[$part_doc])* $vis $part: $type,)*
        }

        $crate::parts! { $vis keys { $($part: $type,)* } }
    };
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident<$life:lifetime> {
            changes { $($changed:ident: $type:ty,)* }
            $(reads { $($read:ident: $read_type:ty,)* })?
        }
    ) => {
        $(#[$doc])*
        $vis struct $name<$life> {
            $($vis $changed: &$life mut $type,)*
            $($($vis $read: &$life $read_type,)*)?
        }

        $crate::parts! { $vis keys { $($changed: $type,)* $($($read: $read_type,)*)? } }
    };
}

/// Makes a handler of the list of its keys: the struct, and `of`, which takes them from all parts.
/// The fields are all that the handler may change or read.
///
/// A handler without `of PARTS` is made by others only. `with` lists handlers below it, each with
/// the method that makes it, and the keys that it gets. The module `keys` of the parts is in scope.
#[macro_export]
macro_rules! handler {
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident of $parts:ident {
            $(changes { $($changed:ident),* $(,)? })?
            $(reads { $($read:ident),* $(,)? })?
        }
        $($below:tt)*
    ) => {
        $crate::handler! {
            $(#[$doc])*
            $vis $name {
                $(changes { $($changed),* })?
                $(reads { $($read),* })?
            }
            $($below)*
        }

        impl<'a> $name<'a> {
            /// With these keys.
            $vis fn of(parts: &'a mut $parts) -> Self {
                $name {
                    $($($changed: &mut parts.$changed,)*)?
                    $($($read: &parts.$read,)*)?
                }
            }
        }
    };
    (
        $(#[$doc:meta])*
        $vis:vis $name:ident {
            $(changes { $($changed:ident),* $(,)? })?
            $(reads { $($read:ident),* $(,)? })?
        }
        $(with { $($make:ident: $below:ident { $($given:ident),* $(,)? },)* })?
    ) => {
        $(#[$doc])*
        $vis struct $name<'a> {
            $($($vis $changed: &'a mut keys::$changed,)*)?
            $($($vis $read: &'a keys::$read,)*)?
        }

        $(impl $name<'_> {
            $(fn $make(&mut self) -> $below<'_> {
                $below {
                    $($given: &mut self.$given,)*
                }
            })*
        })?
    };
}

pub(crate) use {handler, parts};
