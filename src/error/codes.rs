//! Enums of stable codes: a name, a grade and a sentence stand beside each variant and nowhere else.

/// Declares such an enum. Each line has a variant, the name that users and scripts see, the grade, and the sentence, which
/// is the variant's documentation, too.
macro_rules! codes {
    (
        $(#[$about:meta])* pub enum $code:ident;
        $(#[$grades:meta])* pub fn $grade:ident -> $of:ident;
        $(#[$says:meta])* pub fn $sentence:ident;
        $($variant:ident, $name:literal, $value:ident, $text:literal;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $code {
            $(#[doc = $text] $variant,)*
        }

        impl $code {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [$code] = &[$($code::$variant,)*];

            /// The name that users and scripts see.
            pub fn name(self) -> &'static str {
                match self { $($code::$variant => $name,)* }
            }

            $(#[$grades])*
            pub fn $grade(self) -> $of {
                match self { $($code::$variant => $of::$value,)* }
            }

            $(#[$says])*
            pub fn $sentence(self) -> &'static str {
                match self { $($code::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $code {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use codes;
