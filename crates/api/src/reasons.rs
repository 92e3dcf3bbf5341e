//! Lists of reasons: each system has one, closed, with what every reason means and what a person can do about it.

macro_rules! reasons {
    ($(#[doc = $about:literal])+ $Reason:ident; $($(#[doc = $doc:literal])+ $name:ident: $advice:literal,)+) => {
        $(#[doc = $about])+
        #[derive(serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl $Reason {
            /// Every reason there is, in the order of the documentation.
            pub const ALL: &'static [$Reason] = &[$($Reason::$name,)+];

            /// The word as it stands in a status, an event, a metric and a termination message.
            pub const fn as_str(self) -> &'static str {
                match self { $($Reason::$name => stringify!($name),)+ }
            }

            /// What a person can do about it, as a part of a sentence.
            pub const fn advice(self) -> &'static str {
                match self { $($Reason::$name => $advice,)+ }
            }

            /// Reads the word back. Unknown words are `None`: whoever wrote it may be newer or older than we are.
            pub fn parse(word: &str) -> Option<$Reason> {
                $Reason::ALL.iter().copied().find(|reason| reason.as_str() == word)
            }
        }

        impl std::fmt::Display for $Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use reasons;
