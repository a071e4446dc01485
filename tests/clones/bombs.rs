use super::cloned;
use crate::support::agent::{agent_command, describe};
use crate::support::{git_in, isolated};
use crate::verify::Agent;
use sha1::Digest;
use std::fs;
use std::path::Path;
use std::process::Output;
use zlib_rs::{DeflateConfig, compress_bound, compress_slice};

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut room = vec![0; compress_bound(content.len())];
    compress_slice(&mut room, content, DeflateConfig::default()).0.to_vec()
}

fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A pack of 16 KB with a blob of 16 MB of zeros and a delta that copies it `times` times.
fn bomb(directory: &Path, times: u64) {
    const BASE: u64 = 0x00ff_ffff;
    let entry = |kind: u8, size: u64| {
        let mut bytes = vec![kind << 4 | (size & 15) as u8];
        if size > 15 {
            bytes[0] |= 0x80;
            varint(size >> 4, &mut bytes);
        }
        bytes
    };
    let mut pack = [&b"PACK"[..], &2_u32.to_be_bytes(), &2_u32.to_be_bytes()].concat();
    let base = [entry(3, BASE), deflated(&vec![0; BASE as usize])].concat();
    let name =
        sha1::Sha1::digest([format!("blob {BASE}\0").as_bytes(), &vec![0; BASE as usize]].concat());
    pack.extend(&base);
    let mut delta = Vec::new();
    varint(BASE, &mut delta);
    varint(BASE * times, &mut delta);
    for _ in 0..times {
        // Copy from 0, with three bytes of length.
        delta.extend([0xf0, 0xff, 0xff, 0xff]);
    }
    pack.extend(entry(7, delta.len() as u64));
    pack.extend(name.as_slice());
    pack.extend(deflated(&delta));
    let sum = sha1::Sha1::digest(&pack);
    pack.extend(sum.as_slice());
    assert!(pack.len() < 1 << 16, "{} bytes", pack.len());
    fs::write(directory.join("pack-bomb.pack"), pack).expect("written");
}

/// A commit in the agent's clone, so that there is something to take in.
fn commit(agent: &Agent, name: &str) -> String {
    fs::write(agent.worktree.join("src").join(name), "pub fn x() {}\n").expect("written");
    git_in(&agent.worktree, ["add", "-A"]);
    git_in(&agent.worktree, ["commit", "-q", "--no-verify", "-m", name]);
    git_in(&agent.worktree, ["rev-parse", "HEAD"])
}

/// Runs a command of ours, all of it and its children, with a gigabyte of memory.
fn within_bounds(agent: &Agent, arguments: &[&str]) -> Output {
    let program = agent_command(&agent.repo.path()).get_program().to_owned();
    let mut command = isolated("sh", &agent.repo.path());
    command.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh"]).arg(program);
    command.args(arguments).output().expect("starts")
}

#[test]
fn a_pack_that_stands_for_gigabytes_is_not_unpacked() {
    let agent = cloned();
    let other = agent.repo.spawn();
    commit(&agent, "one.rs");
    bomb(&agent.own_repository().join("objects/pack"), 200);
    let output = within_bounds(&agent, &["list"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Both agents are listed, and one sentence says what is wrong with this one.
    let short = other["short_id"].as_str().map(str::to_owned);
    let short = short.unwrap_or_else(|| other["agent_id"].as_str().expect("an id")[..8].to_owned());
    assert!(said.contains(&short) && said.contains(&agent.id[..8]), "{said}");
    assert!(said.contains("3355443000 bytes"), "{said}");
    let output = within_bounds(&agent, &["verify", &agent.id]);
    assert_ne!(output.status.code(), Some(0), "{}", describe(&output));
    // Nothing of it is lost.
    let output = within_bounds(&agent, &["discard", &agent.id]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("is kept in"), "{said}");
}

#[test]
fn a_loose_object_that_stands_for_gigabytes_is_not_unpacked() {
    let agent = cloned();
    let tip = commit(&agent, "one.rs");
    // A commit whose message is four gigabytes long, as its first line says.
    let directory = agent.own_repository().join("objects").join("ab");
    fs::create_dir_all(&directory).expect("made");
    let object = deflated(format!("commit {}\0tree {tip}", 4_u64 << 30).as_bytes());
    fs::write(directory.join("cd".repeat(19)), object).expect("written");
    let output = within_bounds(&agent, &["list"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("4294967296 bytes"), "{said}");
}

#[test]
fn what_honest_agents_write_is_taken_in() {
    let agent = cloned();
    // Many versions of one file, which a repack makes a chain of deltas.
    let mut text = String::new();
    for version in 0..60 {
        text.push_str(&format!("pub const LINE_{version}: u32 = {version};\n").repeat(20));
        fs::write(agent.worktree.join("src/lib.rs"), &text).expect("written");
        git_in(&agent.worktree, ["commit", "-q", "--no-verify", "-am", "version"]);
    }
    git_in(&agent.worktree, ["repack", "-adfq", "--depth=4000", "--window=10"]);
    let tip = git_in(&agent.worktree, ["rev-parse", "HEAD"]);
    let output = agent.repo.agent(&["list"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert_eq!(agent.known_tip(), tip);
    agent.repo.git(["fsck", "--strict"]);
}
