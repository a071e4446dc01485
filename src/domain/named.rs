//! Enums whose variants each have a word of their own, which stands beside the variant and nowhere else.

/// Declares such an enum: `Done = "done",`. It gets `ALL`, in the order of the variants, `as_str`, `parse` and `Display`.
macro_rules! named {
    ($(#[$about:meta])* $visibility:vis enum $name:ident {
        $($(#[$meaning:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$meaning])* $variant,)*
        }

        #[allow(dead_code, reason = "not each of them is listed, or read back")]
        impl $name {
            /// All of them, in order.
            $visibility const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word that users and scripts see.
            $visibility fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Reads the word back.
            $visibility fn parse(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use named;
