//! What git's own programs are asked for: which version it is, hooks, and signatures.

use crate::domain::{Oid, RepoPath};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::core::tree::SYMLINK;
use crate::git::{Repo, core::command};
use std::collections::HashMap;
use std::fs;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

// Which git the user has, asked without waiting for the answer.

/// A version of git, as far as anything here depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl Version {
    /// The first git that runs hooks which the configuration names (`hook.<name>.command`); older ones
    /// pass over them in silence.
    pub const CONFIG_HOOKS: Version = Version { major: 2, minor: 54 };

    /// The first git that knows from a linked worktree that the main one is bare where `config.worktree` says so, to which git itself
    /// moves `core.bare` once worktrees have settings of their own.
    pub const BARE_IN_WORKTREE_CONFIG: Version = Version { major: 2, minor: 49 };

    /// The first git that tells `reference-transaction` nothing of HEAD where only its reflog changes.
    pub const HEAD_UNTOLD: Version = Version { major: 2, minor: 48 };

    /// The first git that asks `reference-transaction` before it takes the locks, with the state `preparing`.
    pub const PREPARING: Version = Version::CONFIG_HOOKS;

    /// Reads what `git version` says, such as `git version 2.47.3 (Apple Git-1)`; `None` when that is
    /// nothing git would say.
    pub fn parse(text: &str) -> Option<Version> {
        let numbers = text.strip_prefix("git version ")?;
        let mut numbers = numbers.split(|c: char| !c.is_ascii_digit());
        Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

/// A question that git is answering.
#[derive(Debug)]
#[must_use]
pub struct VersionQuestion(Child);

/// Starts `git version`. Its 2 ms then pass while something else is done.
///
/// # Errors
/// `io` when there is no git.
pub fn ask_version(directory: &Path) -> Result<VersionQuestion> {
    command::git(directory)
        .arg("version")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(VersionQuestion)
        .map_err(|source| Error::io("could not start git", source))
}

impl VersionQuestion {
    /// The answer; `None` when git failed or said something else.
    pub fn answer(self) -> Option<Version> {
        let output = self.0.wait_with_output().ok()?;
        Version::parse(&String::from_utf8_lossy(&output.stdout))
    }
}

// Runs the repository's own hooks as git itself would.

/// A hook that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// What it said if it failed.
    pub complaint: Option<String>,
}

impl Repo {
    /// Runs `post-checkout` in a new worktree with the arguments of `git worktree add`: the zero oid,
    /// the commit, and 1; `None` where there is certainly no such hook. Git ignores its failure too.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub fn run_post_checkout(&self, worktree: &Path, commit: Oid) -> Result<Option<HookRun>> {
        if !self.may_have_hook("post-checkout")? {
            return Ok(None);
        }
        let (zero, commit) = (Oid::ZERO.to_hex(), commit.to_hex());
        let complaint = self.run_hook(worktree, "post-checkout", &[&zero, &commit, "1"], b"")?;
        Ok(Some(HookRun { complaint }))
    }

    /// Runs a hook in a directory, as git itself would there, with this standard input. Gives what it said if it failed.
    ///
    /// # Errors
    /// `git-missing`, `io`; `git-failed` where git is too old for it.
    pub(in crate::git) fn run_hook(
        &self,
        directory: &Path,
        name: &str,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Option<String>> {
        let mut git = command::git(directory);
        git.args(["hook", "run", "--ignore-missing"]);
        if !input.is_empty() {
            git.arg("--to-stdin=/dev/stdin");
        }
        git.args([name, "--"]).args(arguments);
        let output = command::feed(git, input)?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // Before 2.41 git does not know `--to-stdin` and says so with this status: no hook refused anything.
        if !input.is_empty() && output.status.code() == Some(129) {
            let what = format!("this git is too old to ask the hook {name}");
            return Err(
                Error::new(Code::GitFailed, what).hint("to go on, install git 2.43 or newer")
            );
        }
        Ok(if output.status.success() {
            None
        } else if said.is_empty() {
            Some(output.status.to_string())
        } else {
            Some(said)
        })
    }

    /// As [`Repo::may_have_hook`] for the worktree at `top`, by settings that no worktree has for itself.
    ///
    /// # Errors
    /// As there.
    pub(in crate::git) fn may_have_shared_hook(&self, top: &Path, name: &str) -> Result<bool> {
        let directory = match self.shared_hooks_dir()? {
            // Only git knows where that leads, and a hook that may be there is asked.
            Some(directory) if directory.starts_with("~") => return Ok(true),
            Some(directory) => top.join(directory),
            None => self.common_dir().join("hooks"),
        };
        let settings = self.shared_settings("hook.")?;
        Ok(directory.join(name).exists() || Repo::name_hook(&settings, name))
    }

    /// What `core.hooksPath` says, as far as no worktree says it for itself.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub(in crate::git) fn shared_hooks_dir(&self) -> Result<Option<PathBuf>> {
        const KEY: &str = "core.hookspath";
        let mut settings = self.shared_settings(KEY)?.into_iter();
        let last = settings.rfind(|setting| setting.key == KEY);
        Ok(last.map(|setting| PathBuf::from(setting.value)))
    }

    /// Whether a hook of that name can exist at all, so that the usual case starts no process.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn may_have_hook(&self, name: &str) -> Result<bool> {
        let directory = match self.config_string("core.hooksPath")? {
            // Relative to a worktree that may not exist yet, or `~/…`: git knows the rules.
            Some(_) => return Ok(true),
            None => self.common_dir().join("hooks"),
        };
        let settings = self.settings("hook.")?;
        Ok(directory.join(name).exists() || Repo::name_hook(&settings, name))
    }

    /// As [`Repo::may_have_hook`], in a new worktree of this tree: of a directory of hooks that the tree lacks, as one that a package
    /// manager makes, git runs nothing there.
    ///
    /// # Errors
    /// As there; `repo-corrupt`.
    pub fn may_have_hook_in(&self, name: &str, tree: Oid) -> Result<bool> {
        let path = self.config_string("core.hooksPath")?;
        let path = path.as_deref().map(|path| path.trim_start_matches("./").trim_end_matches('/'));
        let is_named = Repo::name_hook(&self.settings("hook.")?, name);
        let Some(path) = path.filter(|path| !is_named && !path.starts_with('~')) else {
            return self.may_have_hook(name);
        };
        if path.starts_with('/') {
            return Ok(Path::new(path).join(name).exists());
        }
        if RepoPath::parse(path.as_bytes()).is_err() {
            return self.may_have_hook(name);
        }
        let hook = format!("{path}/{name}");
        for (end, _) in hook.match_indices('/').chain([(hook.len(), "")]) {
            match self.entry_at(tree, hook.get(..end).unwrap_or_default())? {
                // A symlink leads on to where only git looks.
                Some(entry) if entry.mode == SYMLINK => return Ok(true),
                Some(_) => {}
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

// Signatures by ssh keys, as git makes and checks them (git-config(1): `gpg.format`, `user.signingKey`,
// `gpg.ssh.allowedSignersFile`).
//
// Settings that an agent could have written into its worktree's own configuration do not count.

/// What git signs commits for. A list of allowed signers often allows nothing else; a text whose beginning is no
/// commit's cannot pass for one.
const NAMESPACE: &str = "git";

/// The settings that name the list of the keys that may sign, and that of the keys that may not any more.
const SIGNERS: &str = "gpg.ssh.allowedSignersFile";
const REVOKED: &str = "gpg.ssh.revocationFile";

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
        let key = match self.shared("user.signingKey")? {
            None => self.default_key()?,
            key => key,
        };
        let Some(key) = key.filter(|_| format.as_deref() == Some("ssh")) else {
            let what = "git is not set up to sign with an ssh key here";
            return Err(Error::new(Code::Usage, what)
                .hint("to sign with ssh keys, run git config gpg.format ssh")
                .hint("to name the key, run git config user.signingKey <file of the public key>"));
        };
        let mut command = self.ssh_keygen()?;
        command.args(["-Y", "sign", "-n", NAMESPACE]);
        let literal = key.strip_prefix("key::");
        match literal.or_else(|| key.starts_with("ssh-").then_some(key.as_str())) {
            // The private half is with the ssh agent.
            Some(literal) => {
                // ssh-keygen takes a key from a file alone.
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
        let configured = self.shared_file(SIGNERS)?;
        let Some(signers) = signers.map(Path::to_owned).or(configured) else {
            return Err(Error::new(Code::Usage, "there is no list of the keys that may sign")
                .hint("to name one, run git config gpg.ssh.allowedSignersFile <file>"));
        };
        fs::metadata(&signers).at("could not read", &signers)?;
        let file = scratch.join("signature");
        fs::write(&file, signature).at("could not write", &file)?;
        let mut find = self.ssh_keygen()?;
        find.args(["-Y", "find-principals", "-f"]).arg(&signers).arg("-s").arg(&file);
        let found = command::finish(&mut find)?;
        let principals = String::from_utf8_lossy(&found.stdout).into_owned();
        let Some(principal) = principals.lines().next().filter(|_| found.status.success()) else {
            return Ok(Signer::Unknown(said(&found)));
        };
        // To be named in the list proves nothing yet: this checks the signature over the text.
        let mut verify = self.ssh_keygen()?;
        verify.args(["-Y", "verify", "-n", NAMESPACE, "-f"]).arg(&signers);
        if let Some(revoked) = self.shared_file(REVOKED)? {
            // ssh-keygen itself takes a list that is missing for one that revokes every key.
            fs::metadata(&revoked).at("could not read", &revoked)?;
            verify.arg("-r").arg(revoked);
        }
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
        let mut lists = Vec::new();
        for key in [SIGNERS, REVOKED] {
            let file = self.shared_file(key)?;
            lists.extend(file.map(|file| (key, file.to_string_lossy().into_owned())));
        }
        for commits in commits.chunks(AT_ONCE) {
            let mut command = self.plumbing();
            // This git does not stand where a relative one begins.
            for (key, file) in &lists {
                command.args(["-c", &format!("{key}={file}")]);
            }
            // `log` and not `rev-list`, which before git 2.41 does not read the settings of signatures.
            command.args(["log", "--no-walk=unsorted", "--stdin", "--no-show-signature"]);
            command.args(["--no-patch", "--format=%H %G? %GS"]);
            let names: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
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

    /// The first key that the user's own command names (`gpg.ssh.defaultKeyCommand`), as git takes it where no key is set.
    fn default_key(&self) -> Result<Option<String>> {
        let Some(line) = self.shared("gpg.ssh.defaultKeyCommand")? else {
            return Ok(None);
        };
        let mut command = command::signer("/bin/sh");
        command.current_dir(self.root()?);
        let output = command::finish(command.args(["-c", &line]))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_key = |line: &&str| line.starts_with("ssh-") || line.starts_with("key::");
        let first = said.lines().next().filter(is_key).map(str::to_owned);
        Ok(first.filter(|_| output.status.success()))
    }

    fn ssh_keygen(&self) -> Result<Command> {
        let program = self.shared("gpg.ssh.program")?;
        let program = self.program_at(program.unwrap_or_else(|| "ssh-keygen".to_owned()))?;
        Ok(command::signer(&program))
    }

    /// The file that a setting names. A relative one begins at the top of the main worktree, as for a git that stands there.
    fn shared_file(&self, key: &str) -> Result<Option<PathBuf>> {
        let file = self.shared(key)?;
        file.map(|file| Ok(self.root()?.join(file))).transpose()
    }

    /// The value of a setting, `~/` at its beginning replaced. The shared directory has no worktree's own configuration.
    fn shared(&self, key: &str) -> Result<Option<String>> {
        let mut command = self.plumbing();
        command.args(["config", "--type=path", "--get", key]);
        let output = command::finish(&mut command)?;
        let value = String::from_utf8_lossy(&output.stdout);
        let value = value.trim_end_matches('\n').to_owned();
        // An empty value takes back one of another file.
        Ok(Some(value).filter(|value| output.status.success() && !value.is_empty()))
    }
}

fn said(output: &Output) -> String {
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&said).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let check = |text: &str, expected: Option<(u32, u32)>| {
            let version = Version::parse(text).map(|version| (version.major, version.minor));
            assert_eq!(version, expected, "{text}");
        };
        check("git version 2.47.3\n", Some((2, 47)));
        check("git version 2.39.5 (Apple Git-154)", Some((2, 39)));
        check("git version 2.55.GIT", Some((2, 55)));
        check("git version 3.0.0.rc1", Some((3, 0)));
        check("git version", None);
        check("fatal: 2.54", None);
        let at_least = |text| Version::parse(text) >= Some(Version::CONFIG_HOOKS);
        assert!(at_least("git version 2.54.0") && at_least("git version 3.0.1"));
        assert!(!at_least("git version 2.53.9") && !at_least("nonsense"));
    }
}
