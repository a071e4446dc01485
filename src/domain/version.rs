//! Versions of this program, as the events of the ledger name them.

use std::fmt;

/// A version in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramVersion(pub u32, pub u32, pub u32);

impl ProgramVersion {
    /// The version whose events this program understands: the next one that is released from these sources. It is raised
    /// together with the first event that an older program would misjudge a row without.
    pub const UNDERSTOOD: ProgramVersion = ProgramVersion(0, 3, 0);

    /// A version that cannot be read: newer than every program.
    pub const UNREADABLE: ProgramVersion = ProgramVersion(u32::MAX, u32::MAX, u32::MAX);

    /// Reads `1.2.3`; what follows a third number, such as `-rc.1`, is passed over.
    pub fn parse(text: &str) -> Option<ProgramVersion> {
        let mut numbers = text.splitn(3, '.');
        let mut next = || numbers.next();
        let (major, minor, rest) = (next()?, next()?, next()?);
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = |text: &str| text.parse().ok();
        Some(ProgramVersion(
            number(major)?,
            number(minor)?,
            number(&rest[..digits])?,
        ))
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == ProgramVersion::UNREADABLE {
            return f.write_str("(a version that cannot be read)");
        }
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_their_numbers() {
        let parse = ProgramVersion::parse;
        assert_eq!(parse("0.3.0"), Some(ProgramVersion(0, 3, 0)));
        assert_eq!(parse("1.10.2-rc.1"), Some(ProgramVersion(1, 10, 2)));
        assert!(parse("0.10.0") > parse("0.9.9"));
        for wrong in ["", "1", "1.2", "a.b.c", "1.2.", "-1.0.0", "99999999999.0.0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            parse(&ProgramVersion::UNDERSTOOD.to_string()),
            Some(ProgramVersion::UNDERSTOOD)
        );
        assert!(Some(ProgramVersion::UNDERSTOOD) >= parse(env!("CARGO_PKG_VERSION")));
    }
}
