//! Many merges by one child: `git merge-tree --stdin`.

use super::{Merge, MergeResult, conflicts};
use crate::domain::oid::Oid;
use crate::error::{Error, Result};
use crate::git::{Repo, command};
use std::io::Write;
use std::process::{Output, Stdio};

impl Repo {
    /// Merges each pair as [`Repo::merge`] would, except that the attributes of all of them come from one
    /// commit. The answers are in the order of the pairs.
    ///
    /// # Errors
    /// As [`Repo::merge`].
    pub fn merge_many(&self, pairs: &[(Oid, Oid)], attributes: Oid) -> Result<Vec<Merge>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.merge_all_at_once(pairs, attributes)?;
        let answers = if output.status.success() {
            parse(&output.stdout).filter(|answers| answers.len() == pairs.len())
        } else {
            None
        };
        match answers {
            Some(answers) => Ok(answers),
            // Before 2.39 git takes no list, and a pair without a common ancestor ends the child.
            None => pairs
                .iter()
                .map(|(ours, theirs)| self.merge(*ours, *theirs))
                .collect(),
        }
    }

    fn merge_all_at_once(&self, pairs: &[(Oid, Oid)], attributes: Oid) -> Result<Output> {
        let mut command = self.plumbing();
        command
            .env("GIT_ATTR_SOURCE", attributes.to_hex())
            .args(["merge-tree", "--write-tree", "-z", "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let list: String = pairs
            .iter()
            .map(|(ours, theirs)| format!("{ours} {theirs}\n"))
            .collect();
        let mut child = command::launch(&mut command)?;
        let input = child.stdin.take();
        std::thread::scope(|scope| {
            // git answers while it reads, so both ends are served at once. One that gave up says why.
            scope.spawn(move || input.map(|mut input| input.write_all(list.as_bytes())));
            let output = child.wait_with_output();
            output.map_err(|error| Error::io("could not run git merge-tree", error))
        })
    }
}

/// Reads one answer after the other: `1`, the tree and an empty field for a clean merge; `0` and what
/// [`super::parse`] reads for conflicts, ended by an empty field.
fn parse(answer: &[u8]) -> Option<Vec<Merge>> {
    let mut fields = answer.split(|&byte| byte == 0);
    let mut merges = Vec::new();
    while let Some(status) = fields.next().filter(|status| !status.is_empty()) {
        let tree = Oid::from_hex(std::str::from_utf8(fields.next()?).ok()?)?;
        let result = match status {
            b"1" => {
                fields.next().filter(|end| end.is_empty())?;
                MergeResult::Clean { tree }
            }
            b"0" => MergeResult::Conflicts {
                tree: Some(tree),
                conflicts: conflicts(&mut fields)?,
            },
            _ => return None,
        };
        merges.push(Merge {
            result,
            approximate: false,
        });
    }
    Some(merges)
}
