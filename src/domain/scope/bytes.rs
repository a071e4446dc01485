//! A set of bytes: what a pattern accepts at one position.

/// Some of the 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    /// Every byte but NUL, which no path holds.
    pub(super) const ALL: ByteSet = ByteSet([!1, !0, !0, !0]);
    /// No byte.
    pub(super) const NONE: ByteSet = ByteSet([0; 4]);

    pub(super) fn of(byte: u8) -> ByteSet {
        let mut set = ByteSet::NONE;
        set.insert(byte);
        set
    }

    /// Every byte that a name can hold.
    pub(super) fn in_names() -> ByteSet {
        ByteSet::ALL.without(ByteSet::of(b'/'))
    }

    /// What stands between the brackets of a class: single bytes and ranges `a-z`.
    pub(super) fn of_class(members: &[u8], negated: bool) -> ByteSet {
        let mut set = ByteSet::NONE;
        let mut rest = members;
        loop {
            rest = match rest {
                [] => break,
                [low, b'-', high, after @ ..] => {
                    (*low..=*high).for_each(|byte| set.insert(byte));
                    after
                }
                [one, after @ ..] => {
                    set.insert(*one);
                    after
                }
            };
        }
        if negated {
            ByteSet::in_names().without(set)
        } else {
            set
        }
    }

    pub(super) fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self == ByteSet::NONE
    }

    pub(super) fn and(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(super) fn or(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(super) fn without(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The byte that stands for all of them: a letter where there is one, so that people can read it.
    pub(super) fn representative(self) -> Option<u8> {
        let readable = std::iter::once(b'x').chain(b'a'..=b'z');
        readable.chain(1..=255).find(|byte| self.contains(*byte))
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
}
