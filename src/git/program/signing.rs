//! Signatures by ssh keys, as git makes and checks them (git-config(1): `gpg.format`, `user.signingKey`,
//! `gpg.ssh.allowedSignersFile`).
//!
//! Settings that an agent could have written into its worktree's own configuration do not count.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::{Repo, command};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What git signs commits for. A list of allowed signers often allows nothing else; a text whose beginning is no
/// commit's cannot pass for one.
const NAMESPACE: &str = "git";

/// How many commits one git is asked about: their names fit into a pipe.
const AT_ONCE: usize = 1000;

/// What git says of a commit's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitSignature {
    /// It is good, and by a key that git trusts: for ssh keys, by this principal of the list of allowed signers.
    Good(String),
    /// It is by a key that git does not trust or know, or it cannot be checked.
    Untrusted,
    /// It is of another text.
    Bad,
    /// There is none.
    Missing,
}

/// Whose signature it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// This principal of the list of allowed signers.
    Known(String),
    /// No one of that list, or the signature is of another text, in the words of `ssh-keygen`.
    Unknown(String),
}

impl Repo {
    /// Signs a text with the user's ssh key; `scratch` is an empty directory.
    ///
    /// # Errors
    /// `usage` where git is not set up to sign with ssh keys; `io`, `git-failed` where `ssh-keygen` does not sign.
    pub fn sign(&self, text: &[u8], scratch: &Path) -> Result<String> {
        let format = self.shared("gpg.format")?;
        let key = self.shared("user.signingKey")?;
        let Some(key) = key.filter(|_| format.as_deref() == Some("ssh")) else {
            return Err(Error::new(
                Code::Usage,
                "git is not set up to sign with an ssh key here",
            )
            .hint("to sign with ssh keys, run git config gpg.format ssh")
            .hint("to name the key, run git config user.signingKey <file of the public key>"));
        };
        let mut command = self.ssh_keygen()?;
        command.args(["-Y", "sign", "-n", NAMESPACE]);
        let literal = key.strip_prefix("key::");
        match literal.or_else(|| key.starts_with("ssh-").then_some(key.as_str())) {
            // The private half is with the ssh agent.
            Some(literal) => {
                let file = scratch.join("key.pub");
                fs::write(&file, format!("{literal}\n")).at("could not write", &file)?;
                command.arg("-U").arg("-f").arg(file);
            }
            None => {
                command.arg("-f").arg(&key);
            }
        }
        let output = command::feed(command, text)?;
        let signature = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() || signature.is_empty() {
            let what = format!("could not sign with the key {key}");
            return Err(Error::new(Code::GitFailed, what).because(said(&output)));
        }
        Ok(signature)
    }

    /// Finds out whose signature of a text it is. `signers` is a list of allowed signers (ssh-keygen(1)), by default that of
    /// git's configuration; `scratch` is an empty directory.
    ///
    /// # Errors
    /// `usage` where there is no list; `io`.
    pub fn signer(
        &self,
        text: &[u8],
        signature: &str,
        signers: Option<&Path>,
        scratch: &Path,
    ) -> Result<Signer> {
        let configured = self.shared("gpg.ssh.allowedSignersFile")?;
        let Some(signers) = signers
            .map(Path::to_owned)
            .or(configured.map(PathBuf::from))
        else {
            return Err(
                Error::new(Code::Usage, "there is no list of the keys that may sign")
                    .hint("to name one, run git config gpg.ssh.allowedSignersFile <file>"),
            );
        };
        fs::metadata(&signers).at("could not read", &signers)?;
        let file = scratch.join("signature");
        fs::write(&file, signature).at("could not write", &file)?;
        let mut find = self.ssh_keygen()?;
        find.args(["-Y", "find-principals", "-f"])
            .arg(&signers)
            .arg("-s")
            .arg(&file);
        let found = command::finish(&mut find)?;
        let principals = String::from_utf8_lossy(&found.stdout).into_owned();
        let Some(principal) = principals.lines().next().filter(|_| found.status.success()) else {
            return Ok(Signer::Unknown(said(&found)));
        };
        let mut verify = self.ssh_keygen()?;
        verify
            .args(["-Y", "verify", "-n", NAMESPACE, "-f"])
            .arg(&signers);
        verify.args(["-I", principal, "-s"]).arg(&file);
        let verified = command::feed(verify, text)?;
        Ok(if verified.status.success() {
            Signer::Known(principal.to_owned())
        } else {
            Signer::Unknown(said(&verified))
        })
    }

    /// What git says of the signatures of commits.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`; `repo-corrupt` for a commit that is missing.
    pub fn commit_signatures(&self, commits: &[Oid]) -> Result<HashMap<Oid, CommitSignature>> {
        let mut signatures = HashMap::new();
        for commits in commits.chunks(AT_ONCE) {
            let mut command = self.plumbing();
            // `log` and not `rev-list`, which before git 2.41 does not read the settings of signatures.
            command.args([
                "log",
                "--no-walk=unsorted",
                "--stdin",
                "--no-show-signature",
            ]);
            command.args(["--no-patch", "--format=%H %G? %GS"]);
            let names: String = { commits.iter() }.map(|oid| format!("{oid}\n")).collect();
            let output = command::feed(command, names.as_bytes())?;
            if !output.status.success() {
                let what = "git could not say who signed the commits";
                return Err(Error::new(Code::GitFailed, what).because(said(&output)));
            }
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let mut words = line.splitn(3, ' ');
                let Some(oid) = words.next().and_then(Oid::from_hex) else {
                    continue;
                };
                let signature = match words.next() {
                    Some("G") => CommitSignature::Good(words.next().unwrap_or_default().to_owned()),
                    Some("B") => CommitSignature::Bad,
                    // Without a list of allowed signers git does not look at a signature by an ssh key.
                    Some("N") if self.read_raw_commit(oid)?.header("gpgsig").is_none() => {
                        CommitSignature::Missing
                    }
                    _ => CommitSignature::Untrusted,
                };
                signatures.insert(oid, signature);
            }
        }
        Ok(signatures)
    }

    fn ssh_keygen(&self) -> Result<Command> {
        let program = self.shared("gpg.ssh.program")?;
        let program = self.program_at(program.unwrap_or_else(|| "ssh-keygen".to_owned()))?;
        Ok(command::signer(&program))
    }

    /// The value of a setting, `~/` at its beginning replaced. The shared directory has no worktree's own configuration.
    fn shared(&self, key: &str) -> Result<Option<String>> {
        let mut command = self.plumbing();
        command.args(["config", "--type=path", "--get", key]);
        let output = command::finish(&mut command)?;
        let value = String::from_utf8_lossy(&output.stdout);
        let value = value.trim_end_matches('\n').to_owned();
        Ok(Some(value).filter(|_| output.status.success()))
    }
}

fn said(output: &Output) -> String {
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&said).trim().to_owned()
}
