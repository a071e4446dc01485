//! Real ssh keys, and git set up to sign with them.

use super::{TestRepo, isolated};
use std::fs;
use std::path::PathBuf;

/// Makes the keys of Ada, as whom git signs and whom it trusts, and of Eve, a stranger. Gives their directory.
pub fn set_up(repo: &TestRepo) -> PathBuf {
    let place = repo.path().with_file_name("keys");
    fs::create_dir(&place).expect("a directory");
    for name in ["ada", "eve"] {
        let mut keygen = isolated("ssh-keygen", &place);
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]);
        assert!(keygen.status().expect("ssh-keygen starts").success());
    }
    let public = fs::read_to_string(place.join("ada.pub")).expect("a key");
    let allowed = place.join("allowed");
    let list = format!("ada@example.com namespaces=\"git\" {public}");
    fs::write(&allowed, list).expect("a list");
    let allowed = allowed.display().to_string();
    repo.git(["config", "gpg.ssh.allowedSignersFile", &allowed]);
    repo.git(["config", "gpg.format", "ssh"]);
    sign_as(repo, "ada");
    place
}

/// Has git sign with the key of that name.
pub fn sign_as(repo: &TestRepo, name: &str) {
    let key = repo.path().with_file_name("keys").join(name);
    repo.git(["config", "user.signingKey", &key.display().to_string()]);
}
