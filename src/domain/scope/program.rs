//! A list of patterns as one automaton over the bytes of a path.
//!
//! Each pattern is a row of steps; a path is matched by the set of steps it may stand at. `**` as a whole
//! name is two steps, one at the start of a name and one inside, so that it ends only between names.

use crate::domain::glob::split_class;

/// One step of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// One byte of these.
    One(ByteSet),
    /// Any bytes of one name, or none.
    Star,
    /// Whole directories, or none: between two names.
    Directories,
    /// The same, inside a name. Always follows [`Step::Directories`].
    InsideDirectory,
    /// The first byte of whatever is left.
    Everything,
    /// What is left after it. Always follows [`Step::Everything`].
    Rest,
    /// The end of a pattern.
    End,
}

/// Patterns without braces, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    steps: Vec<Step>,
    starts: Vec<usize>,
}

/// The steps at which a path may stand, ascending.
pub(super) type Standing = Vec<usize>;

impl Program {
    /// Adds a pattern, normalised and without braces.
    pub(super) fn add(&mut self, pattern: &str) {
        self.starts.push(self.steps.len());
        let parts: Vec<&str> = pattern.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            match (*part, last) {
                ("**", true) => self.steps.extend([Step::Everything, Step::Rest]),
                ("**", false) => self
                    .steps
                    .extend([Step::Directories, Step::InsideDirectory]),
                (name, last) => {
                    self.add_name(name);
                    self.steps
                        .extend((!last).then(|| Step::One(ByteSet::of(b'/'))));
                }
            }
        }
        self.steps.push(Step::End);
    }

    fn add_name(&mut self, mut name: &str) {
        while let Some(byte) = name.bytes().next() {
            let (step, rest) = match byte {
                b'*' => (Step::Star, name.trim_start_matches('*')),
                b'?' => (Step::One(ByteSet::in_names()), &name[1..]),
                b'[' => match split_class(name) {
                    Ok(class) => {
                        let set = ByteSet::of_class(class.members.as_bytes(), class.negated);
                        (Step::One(set), class.rest)
                    }
                    // Every glob was checked; accepting more than it says errs on the safe side.
                    Err(_) => (Step::Star, ""),
                },
                _ => {
                    let length = name.chars().next().map_or(1, char::len_utf8);
                    for byte in name[..length].bytes() {
                        self.steps.push(Step::One(ByteSet::of(byte)));
                    }
                    name = &name[length..];
                    continue;
                }
            };
            self.steps.push(step);
            name = rest;
        }
    }

    /// Where every path begins.
    pub(super) fn start(&self) -> Standing {
        let mut standing = Standing::new();
        for start in &self.starts {
            self.enter(*start, &mut standing);
        }
        tidy(standing)
    }

    /// Where a path stands after one more byte.
    pub(super) fn after(&self, standing: &Standing, byte: u8) -> Standing {
        let mut next = Standing::new();
        for &at in standing {
            let to = match self.steps[at] {
                Step::One(set) => set.contains(byte).then_some(at + 1),
                Step::Star => (byte != b'/').then_some(at),
                Step::Directories => (byte != b'/').then_some(at + 1),
                Step::InsideDirectory if byte == b'/' => Some(at - 1),
                Step::InsideDirectory | Step::Rest => Some(at),
                Step::Everything => Some(at + 1),
                Step::End => None,
            };
            if let Some(to) = to {
                self.enter(to, &mut next);
            }
        }
        tidy(next)
    }

    /// Whether a path that ends here is matched.
    pub(super) fn accepts(&self, standing: &Standing) -> bool {
        standing.iter().any(|at| self.steps[*at] == Step::End)
    }

    /// The bytes with which a path can go on from here.
    pub(super) fn going_on(&self, standing: &Standing) -> ByteSet {
        standing.iter().fold(ByteSet::NONE, |set, at| {
            set.or(match self.steps[*at] {
                Step::One(one) => one,
                Step::Star | Step::Directories => ByteSet::in_names(),
                Step::InsideDirectory | Step::Everything | Step::Rest => ByteSet::ALL,
                Step::End => ByteSet::NONE,
            })
        })
    }

    /// The sets of single bytes that tell one way on from another.
    pub(super) fn distinctions<'a>(
        &'a self,
        standing: &'a Standing,
    ) -> impl Iterator<Item = ByteSet> + 'a {
        standing.iter().filter_map(|at| match self.steps[*at] {
            Step::One(set) => Some(set),
            _ => None,
        })
    }

    /// Adds a step and those that are reached from it without a byte.
    fn enter(&self, at: usize, standing: &mut Standing) {
        standing.push(at);
        // These match nothing as well, so where one may stand, the step behind it may, too.
        match self.steps[at] {
            Step::Star | Step::Rest => self.enter(at + 1, standing),
            Step::Directories => self.enter(at + 2, standing),
            _ => {}
        }
    }
}

fn tidy(mut standing: Standing) -> Standing {
    standing.sort_unstable();
    standing.dedup();
    standing
}

// A set of bytes: what a pattern accepts at one position.

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
        // A letter first, because the path is shown to people; NUL never, as no path holds it.
        let readable = std::iter::once(b'x').chain(b'a'..=b'z');
        readable.chain(1..=255).find(|byte| self.contains(*byte))
    }

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
}
