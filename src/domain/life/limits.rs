//! What agents may take of a machine: `[limits]` of the repository, and `agent.limits.*` of a person or a clone.
//!
//! Both say the same things, so one table reads both, and of two values the stricter holds.

use crate::domain::value::diagnostic::nearest;
use crate::domain::value::named::{named, size_text};
use std::collections::BTreeMap;

named! {
    /// What can be limited, by its key in `[limits]`.
    #[derive(PartialOrd, Ord)]
    pub enum Limit {
        /// Space that stays free on the file system of the worktrees.
        DiskFree = "disk_free",
        /// What agents take on disk.
        Disk = "disk",
        /// Agents of the clone that have a worktree.
        Agents = "agents",
        /// Commands at work for agents at the same time.
        Jobs = "jobs",
        /// Memory of one run.
        Memory = "memory",
        /// Processes and threads of one run.
        Pids = "pids",
        /// Processes that the builds of all runs may start, beside one of each run.
        Builds = "builds",
        /// Memory of all runs at the same time.
        MemoryTotal = "memory_total",
        /// What one run may cost.
        Cost = "cost",
        /// What the runs of one day may cost, by UTC.
        CostDay = "cost_day",
        /// Pull requests of agents that are open at the same time.
        OpenPrs = "open_prs",
    }
}

/// What a limit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Number,
    /// Millionths of a US dollar, as rows have them.
    MicroUsd,
}

/// A size below this was meant with a unit: no program runs in less.
const SMALLEST_SIZE: u64 = 1 << 20;

/// With fewer processes a shell with a pipeline does not run, behind a sandbox that has two of its own.
const FEWEST_PIDS: u64 = 16;

impl Limit {
    /// Its key in git's configuration, below `agent.limits.`.
    pub fn git_key(self) -> &'static str {
        match self {
            Limit::DiskFree => "diskFree",
            Limit::MemoryTotal => "memoryTotal",
            Limit::CostDay => "costDay",
            Limit::OpenPrs => "openPrs",
            // One word is the same in both.
            other => other.as_str(),
        }
    }

    /// The limit with this key below `agent.limits.`, in any case, as git compares keys.
    ///
    /// # Errors
    /// The key that was probably meant, where there is one.
    pub fn of_git_key(key: &str) -> Result<Limit, Option<&'static str>> {
        let mut all = Limit::ALL.into_iter();
        let found = all.find(|limit| limit.git_key().eq_ignore_ascii_case(key));
        found.ok_or_else(|| nearest(key, Limit::ALL.map(Limit::git_key)))
    }

    fn unit(self) -> Unit {
        match self {
            Limit::DiskFree | Limit::Disk | Limit::Memory | Limit::MemoryTotal => Unit::Bytes,
            Limit::Agents | Limit::Jobs | Limit::Pids | Limit::Builds | Limit::OpenPrs => {
                Unit::Number
            }
            Limit::Cost | Limit::CostDay => Unit::MicroUsd,
        }
    }

    /// Reads a value as it is written: `20G`, `4`, `2.50`.
    ///
    /// # Errors
    /// What is wrong with it, and how it is written.
    pub fn read(self, text: &str) -> Result<u64, (String, &'static str)> {
        let key = self.as_str();
        let (value, help) = match self.unit() {
            Unit::Bytes => (size(text), "write a size with its unit, such as 20G or 512M"),
            Unit::Number => (text.parse().ok(), "write a whole number from 1"),
            Unit::MicroUsd => (micro_usd(text), "write an amount in US dollars, such as 2.50"),
        };
        let least = match (self, self.unit()) {
            (Limit::Pids, _) => FEWEST_PIDS,
            (_, Unit::Bytes) => SMALLEST_SIZE,
            _ => 1,
        };
        match value {
            None => Err((format!("`{key}` is `{text}`"), help)),
            Some(value) if value < least => Err(match self {
                Limit::Pids => (
                    format!("`{key}` is {value}, with which no command runs"),
                    "write a number from 16",
                ),
                _ => (format!("`{key}` is `{text}`"), help),
            }),
            Some(value) => Ok(value),
        }
    }

    /// A value as people read it: `20.0 GiB`, `4`, `$2.50`.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Bytes => size_text(value),
            Unit::Number => value.to_string(),
            Unit::MicroUsd => usd(value),
        }
    }

    /// Whether one value allows less than another. Of what has to stay free, more is stricter.
    fn is_stricter(self, one: u64, other: u64) -> bool {
        if self == Limit::DiskFree { one > other } else { one < other }
    }
}

/// An amount in US dollars, in cents.
pub fn usd(micro_usd: u64) -> String {
    format!("${:.2}", micro_usd as f64 / 1e6)
}

/// What a model's tokens cost, in millionths of a US dollar for a million: of those that it is given, and of those that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrice([u64; 2]);

impl TokenPrice {
    /// Reads US dollars for a million tokens: `0.50/2`, or one number for both kinds.
    pub fn read(text: &str) -> Option<TokenPrice> {
        let (input, output) = text.split_once('/').unwrap_or((text, text));
        Some(TokenPrice([micro_usd(input.trim())?, micro_usd(output.trim())?]))
    }

    /// What so many tokens cost, in millionths of a US dollar.
    pub fn micro_usd(self, tokens: [u64; 2]) -> u64 {
        let each =
            tokens.iter().zip(self.0).map(|(count, price)| u128::from(*count) * u128::from(price));
        u64::try_from(each.sum::<u128>() / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// The bytes of `20G`, `1.5 GiB` or `4096`; units are powers of 1024.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::from(2_f32.powi(shift));
    // Above that, an f64 does not hold each number of bytes.
    (bytes <= 9e15).then_some(bytes as u64)
}

fn micro_usd(text: &str) -> Option<u64> {
    let dollars: f64 = text.trim().trim_start_matches('$').parse().ok()?;
    (dollars > 0.0 && dollars <= 1e9).then(|| (dollars * 1e6).round() as u64)
}

/// The limits that hold, each by its number of bytes, of things, or of millionths of a US dollar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<Limit, u64>);

impl Limits {
    /// The value that holds; `None` where nothing is limited.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        self.0.get(&limit).copied()
    }

    /// Takes a value in; the stricter one stays. Says whether that is this one.
    pub fn tighten(&mut self, limit: Limit, value: u64) -> bool {
        let known = self.get(limit);
        let holds = known.is_none_or(|known| limit.is_stricter(value, known));
        if holds {
            self.0.insert(limit, value);
        }
        holds || known == Some(value)
    }

    /// Each limit that is set.
    pub fn each(&self) -> impl Iterator<Item = (Limit, u64)> {
        self.0.iter().map(|(limit, value)| (*limit, *value))
    }

    /// What one run may take of the memory. Without a limit of its own it may take all that the runs have together, so
    /// that the sum holds.
    pub fn memory_of_run(&self) -> Option<u64> {
        let total = self.get(Limit::MemoryTotal);
        self.get(Limit::Memory).or(total)
    }
}

impl Limits {
    /// What keeps a run from beginning after others that may take so much memory each, and how many of them there may be before it;
    /// `None` where nothing does.
    pub fn obstacle(&self, ahead: &[u64]) -> Option<(Limit, usize)> {
        let jobs = self.get(Limit::Jobs).map(|jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
        if let Some(jobs) = jobs.filter(|jobs| ahead.len() >= *jobs) {
            // No limit is read that is less than 1.
            return Some((Limit::Jobs, jobs - 1));
        }
        let total = self.get(Limit::MemoryTotal)?;
        // The run that waits has to fit as well, at the most that it may take.
        let room = total.saturating_sub(self.memory_of_run().unwrap_or(0));
        let mut taken = 0_u64;
        let fitting = ahead.iter().take_while(|memory| {
            taken = taken.saturating_add(**memory);
            taken <= room
        });
        let fitting = fitting.count();
        (fitting < ahead.len()).then_some((Limit::MemoryTotal, fitting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_units_and_slips_are_refused() {
        let read = |limit: Limit, text: &str| limit.read(text).ok();
        assert_eq!(read(Limit::Disk, "20G"), Some(20 << 30));
        assert_eq!(read(Limit::Memory, "1.5 GiB"), Some(3 << 29));
        assert_eq!(read(Limit::Memory, "1048576"), Some(1 << 20));
        assert_eq!(read(Limit::CostDay, "2.50"), Some(2_500_000));
        assert_eq!(read(Limit::CostDay, "$20"), Some(20_000_000));
        assert_eq!(read(Limit::Jobs, "3"), Some(3));
        // Four bytes are a forgotten unit; the others are no values at all.
        for (limit, text) in [
            (Limit::Memory, "4"),
            (Limit::Disk, "20 apples"),
            (Limit::Disk, "-1G"),
            (Limit::Disk, "1e30T"),
            (Limit::Disk, ""),
            (Limit::Jobs, "0"),
            (Limit::Jobs, "2.5"),
            (Limit::Pids, "3"),
            (Limit::Cost, "0"),
            (Limit::Cost, "-1"),
            (Limit::Cost, "NaN"),
            (Limit::Cost, "inf"),
        ] {
            assert!(limit.read(text).is_err(), "{limit} {text:?}");
        }
    }

    #[test]
    fn the_stricter_value_holds() {
        let mut limits = Limits::default();
        assert!(limits.tighten(Limit::Jobs, 4));
        assert!(!limits.tighten(Limit::Jobs, 8));
        assert!(limits.tighten(Limit::Jobs, 2));
        assert!(limits.tighten(Limit::DiskFree, 1));
        // What has to stay free is stricter when it is more.
        assert!(limits.tighten(Limit::DiskFree, 2));
        assert!(!limits.tighten(Limit::DiskFree, 1));
        assert_eq!(limits.each().collect::<Vec<_>>(), [(Limit::DiskFree, 2), (Limit::Jobs, 2)]);
        assert_eq!(limits.memory_of_run(), None);
        limits.tighten(Limit::MemoryTotal, 9);
        assert_eq!(limits.memory_of_run(), Some(9));
        limits.tighten(Limit::Memory, 3);
        assert_eq!(limits.memory_of_run(), Some(3));
    }

    #[test]
    fn a_run_begins_where_all_before_it_leave_room() {
        let with = |pairs: &[(Limit, u64)]| {
            let mut limits = Limits::default();
            for (limit, value) in pairs {
                limits.tighten(*limit, *value);
            }
            limits
        };
        assert_eq!(Limits::default().obstacle(&[9; 9]), None);
        let jobs = with(&[(Limit::Jobs, 2)]);
        assert_eq!(jobs.obstacle(&[0]), None);
        assert_eq!(jobs.obstacle(&[0, 0]), Some((Limit::Jobs, 1)));
        // Five of 4 fit into 20; the sixth waits, and the seventh behind it.
        let memory = with(&[(Limit::Memory, 4), (Limit::MemoryTotal, 20)]);
        assert_eq!(memory.obstacle(&[4; 4]), None);
        assert_eq!(memory.obstacle(&[4; 5]), Some((Limit::MemoryTotal, 4)));
        assert_eq!(memory.obstacle(&[4; 6]), Some((Limit::MemoryTotal, 4)));
        // Without a limit of its own, a run may take everything, so it is alone.
        let total = with(&[(Limit::MemoryTotal, 20)]);
        assert_eq!(total.obstacle(&[]), None);
        assert_eq!(total.obstacle(&[20]), Some((Limit::MemoryTotal, 0)));
    }

    #[test]
    fn git_keys_are_found_in_any_case_and_guessed() {
        for limit in Limit::ALL {
            let key = limit.git_key().to_lowercase();
            assert_eq!(Limit::of_git_key(&key), Ok(limit));
        }
        assert_eq!(Limit::of_git_key("job"), Err(Some("jobs")));
    }
}
