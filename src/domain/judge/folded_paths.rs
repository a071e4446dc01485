//! Long lists of paths, folded by directory so that a person can read them.

use super::finding::{Finding, FindingCode};
use crate::domain::paths::path::Quoted;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// So many lines say where things are; more are counted.
pub const MOST: usize = 8;

/// A line for each path where that are few; else one for each directory that holds several, with how many, and at the end how
/// many paths the lines leave out. A directory that holds all of them is opened.
pub fn folded(paths: &[Vec<u8>]) -> Vec<String> {
    if paths.len() <= MOST {
        return paths.iter().map(|path| Quoted(path).to_string()).collect();
    }
    let mut opened = Vec::new();
    let groups = loop {
        // The names in what is opened, each with how many paths it holds, and the first of them.
        let mut groups: BTreeMap<&[u8], (usize, &[u8])> = BTreeMap::new();
        for path in paths {
            let rest = path.strip_prefix(opened.as_slice()).unwrap_or(path);
            let name = rest.split_inclusive(|byte| *byte == b'/').next();
            groups.entry(name.unwrap_or_default()).or_insert((0, path)).0 += 1;
        }
        match groups.keys().next() {
            Some(only) if groups.len() == 1 && only.ends_with(b"/") => opened.extend(*only),
            _ => break groups,
        }
    };
    // What holds the most comes first, as that is what a person wants to know of.
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, _))| Reverse(*count));
    let shown = if groups.len() > MOST { MOST - 1 } else { MOST };
    let mut lines: Vec<String> = groups
        .iter()
        .take(shown)
        .map(|(group, (count, path))| match count {
            1 => Quoted(path).to_string(),
            count => format!("{} ({count} paths)", Quoted(&[&opened, *group].concat())),
        })
        .collect();
    let left: usize = groups.iter().skip(shown).map(|(_, (count, _))| count).sum();
    if left > 0 {
        lines.push(format!("and {left} more"));
    }
    lines
}

/// The findings of one code as a person is told them.
pub struct FoldedFindings<'a> {
    /// The code.
    pub code: FindingCode,
    /// Those that are told: all, or the first of many.
    pub named: Vec<&'a Finding>,
    /// How many more there are.
    pub more: usize,
    /// Where those are.
    pub places: Vec<String>,
}

/// Findings by their codes, in the order in which these come first.
pub fn by_code<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<FoldedFindings<'a>> {
    let mut codes: Vec<(FindingCode, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        match codes.iter_mut().find(|(code, _)| *code == finding.code) {
            Some((_, known)) => known.push(finding),
            None => codes.push((finding.code, vec![finding])),
        }
    }
    let fold = |(code, mut named): (FindingCode, Vec<&'a Finding>)| {
        let keep = if named.len() > MOST { 1 } else { MOST };
        let rest = named.split_off(keep.min(named.len()));
        let paths = rest.iter().filter_map(|finding| finding.path.as_deref());
        FoldedFindings {
            code,
            named,
            more: rest.len(),
            places: folded(&paths.map(<[u8]>::to_vec).collect::<Vec<_>>()),
        }
    };
    codes.into_iter().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST, by_code, folded};
    use crate::domain::judge::finding::{Finding, FindingCode};

    fn lines(paths: &[String]) -> Vec<String> {
        let paths: Vec<_> = paths.iter().map(|path| path.clone().into_bytes()).collect();
        folded(&paths)
    }

    #[test]
    fn few_paths_are_named_and_many_are_counted_by_directory() {
        let few = ["b/c".to_owned(), "a".to_owned()];
        assert_eq!(lines(&few), ["b/c", "a"]);
        let mut many: Vec<_> = (0..766).map(|n| format!(".venv/lib/{n}")).collect();
        assert_eq!(lines(&many).len(), 8);
        assert_eq!(lines(&many)[7], "and 759 more");
        many.extend(["README.md".to_owned(), "src/a".to_owned()]);
        assert_eq!(lines(&many), [".venv/ (766 paths)", "README.md", "src/a"]);
        let below: Vec<_> = many.iter().map(|path| format!("top/{path}")).collect();
        assert_eq!(lines(&below)[0], "top/.venv/ (766 paths)");
    }

    #[test]
    fn as_many_findings_as_can_be_named_are_named() {
        let code = FindingCode::ScopeNotInWhitelist;
        for (count, named) in [(MOST, MOST), (MOST + 1, 1)] {
            let findings: Vec<_> = (0..count).map(|_| Finding::new(code, "", "")).collect();
            let folded = by_code(findings.iter());
            assert_eq!((folded.len(), folded[0].named.len()), (1, named));
            assert_eq!(folded[0].more, count - named);
        }
    }

    #[test]
    fn equal_paths_and_directories_end() {
        assert_eq!(lines(&vec!["a/".to_owned(); 9]), ["a/ (9 paths)"]);
        assert_eq!(lines(&vec!["a".to_owned(); 9]), ["a (9 paths)"]);
    }
}
