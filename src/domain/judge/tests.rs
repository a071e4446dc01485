//! One case per rule: the evidence that is spotless, one thing spoiled, the code that must come.

use super::*;
use crate::domain::boundary::scope::Scope;
use crate::domain::boundary::violation::Boundary;
use crate::domain::judge::evidence::*;
use crate::domain::life::report::ReportRules;
use crate::domain::paths::change::{Change, ChangeKind};
use crate::domain::paths::glob::Glob;
use crate::domain::paths::path::{CaseIndex, RepoPath};
use crate::domain::value::oid::Oid;
use crate::domain::{judge::finding, work::bundle};
use std::time::Duration;

const COMMIT: Oid = Oid::from_bytes([7; 20]);

fn contract() -> Contract {
    let globs = |texts: &[&str]| -> Vec<Glob> {
        let parse = |text: &&str| Glob::parse(text).expect("a glob");
        texts.iter().map(parse).collect()
    };
    let scope = Scope::new(&globs(&["src/**"]), &globs(&["src/secret/**"]));
    Contract {
        agent: None,
        boundary: Boundary {
            scope: scope.expect("a scope"),
            edits: true,
            bundle: RepoPath::parse(b".agent").ok(),
        },
        bundle_required: true,
        spec_sha: "5bec".to_owned(),
        uncounted_tests: 0,
        report: ReportRules::default(),
    }
}

fn spotless() -> Evidence {
    let artefact = |(name, _): (&'static str, &str)| Artefact {
        name,
        text: Ok("written".to_owned()),
        says: match name {
            "spec.md" => Says::Digest("5bec".to_owned()),
            "progress.json" => Says::Status(Some("done".to_owned())),
            _ => Says::Anything,
        },
    };
    Evidence {
        history: Some(BranchHistory { has_spawn_commit: true, ..BranchHistory::default() }),
        touches: vec![touch("src/lib.rs", ChangePlace::Commit(COMMIT))],
        bundle: bundle::FILES.into_iter().map(artefact).collect(),
        worktree: Some(WorktreeFacts { linked: true, ..WorktreeFacts::default() }),
        landing: Some(landing(MergeOutcome::Clean { tree: COMMIT })),
        ..Evidence::default()
    }
}

fn landing(outcome: MergeOutcome) -> Landing {
    Landing {
        refname: Some("refs/heads/main".to_owned()),
        ahead: 2,
        behind: 1,
        outcome,
        approximate: false,
        reverted: None,
    }
}

fn touch(path: &str, place: ChangePlace) -> Touch {
    Touch { change: Change { path: path.into(), kind: ChangeKind::Added, link: None }, place }
}

/// Spoils the spotless evidence and compares the codes found.
fn check(spoil: impl FnOnce(&mut Evidence), expected: &[&str]) {
    let mut evidence = spotless();
    spoil(&mut evidence);
    let codes: Vec<&str> =
        judge(&contract(), &evidence).iter().map(|finding| finding.code.name()).collect();
    assert_eq!(codes, expected);
}

#[test]
fn spotless_work_has_no_findings() {
    check(|_| {}, &[]);
}

#[test]
fn each_artefact_has_its_rules() {
    use ArtefactProblem::*;
    for (problem, code) in [
        (Missing, "bundle.missing"),
        (NotFile, "bundle.not-file"),
        (TooLarge, "bundle.too-large"),
        (NotUtf8, "bundle.not-utf8"),
        (Unreadable, "bundle.unreadable"),
    ] {
        check(|evidence| evidence.bundle[1].text = Err(problem), &[code]);
    }
    check(|e| e.bundle[3].text = Ok(" \n".to_owned()), &["bundle.empty"]);
    for index in 1..6 {
        let untouched = |e: &mut Evidence| {
            let template = bundle::template(e.bundle[index].name);
            e.bundle[index].text = Ok(template.expect("a template"));
        };
        check(untouched, &["bundle.template"]);
    }
    check(|e| e.bundle[0].says = Says::Digest("0".to_owned()), &["bundle.spec-changed"]);
    check(|e| e.bundle[2].says = Says::Status(None), &["bundle.not-done"]);
    check(|e| e.bundle[2].says = Says::Status(Some("running".to_owned())), &["bundle.not-done"]);
    let mut lenient = contract();
    lenient.bundle_required = false;
    let mut evidence = spotless();
    evidence.bundle[0].text = Err(Missing);
    assert_eq!(judge(&lenient, &evidence), Vec::new());
}

#[test]
fn every_touched_path_is_judged_once_per_reason() {
    let commit = ChangePlace::Commit(COMMIT);
    for (path, place, code) in [
        ("README.md", commit, "scope.not-in-whitelist"),
        ("README.md", ChangePlace::Index, "scope.not-in-whitelist"),
        ("src/secret/key", ChangePlace::Worktree, "scope.denylist"),
        (".agent/plan.md", commit, "scope.bundle"),
        ("src/.git/config", commit, "scope.never"),
        ("../outside", commit, "scope.never"),
    ] {
        let touches = vec![touch(path, place), touch(path, ChangePlace::Worktree)];
        check(|evidence| evidence.touches = touches, &[code]);
    }
    let mut link = touch("src/link", commit);
    link.change.link = Some(b"../../etc/passwd".to_vec());
    check(|e| e.touches.push(link), &["scope.symlink-target"]);
    let tracked = [RepoPath::parse(b"src/secret/key").expect("a path")];
    check(
        |e| {
            e.touches.push(touch("src/Secret/key", commit));
            e.other_names = CaseIndex::of(&tracked).into();
        },
        &["scope.denylist"],
    );
}

#[test]
fn one_command_takes_out_what_commits_touched() {
    let mut evidence = spotless();
    let mut changed = touch("Makefile", ChangePlace::Commit(Oid::from_bytes([8; 20])));
    changed.change.kind = ChangeKind::Modified;
    evidence.touches = vec![touch("README.md", ChangePlace::Commit(COMMIT)), changed];
    let findings = judge(&contract(), &evidence);
    let fixes: Vec<&str> = findings.iter().map(|it| it.fix.as_str()).collect();
    let first = COMMIT.short();
    let steps = [
        format!("git reset --soft {first}^"),
        "git rm -rfq --ignore-unmatch -- README.md".to_owned(),
        format!("git restore --source={first}^ --staged --worktree -- Makefile"),
    ];
    let command = steps.join(" && ");
    assert!(fixes.iter().all(|fix| fix.contains(&command)), "{fixes:?}");
    assert_eq!(fixes.len(), 2);
}

#[test]
fn provenance_worktree_and_ledger_have_their_codes() {
    type Spoil = fn(&mut Evidence);
    let cases: [(Spoil, &str); 11] = [
        (|e| e.history = Some(BranchHistory::default()), "provenance.spawn-commit"),
        (
            |e| e.history.as_mut().expect("one").lost_base = Some(COMMIT),
            "provenance.base-rewritten",
        ),
        (|e| e.history.as_mut().expect("one").foreign.push(COMMIT), "provenance.foreign-commit"),
        (|e| e.worktree = None, "worktree.gone"),
        (|e| e.worktree.as_mut().expect("one").linked = false, "worktree.unlinked"),
        (
            |e| {
                e.worktree
                    .as_mut()
                    .expect("one")
                    .in_progress
                    .push(Unfinished { what: "merge", is_broken: false })
            },
            "worktree.in-progress",
        ),
        (
            |e| e.worktree.as_mut().expect("one").head_elsewhere = Some(HeadElsewhere::default()),
            "worktree.head",
        ),
        (|e| e.worktree.as_mut().expect("one").hooks.push("gone".to_owned()), "worktree.hooks"),
        (|e| e.ledger.irregular.push("it is odd".to_owned()), "ledger.irregular"),
        (|e| e.ledger.disorder.push("it was done twice".to_owned()), "ledger.disorder"),
        (|e| e.ledger.broken_links = 1, "ledger.chain"),
    ];
    for (spoil, code) in cases {
        check(spoil, &[code]);
    }
}

#[test]
fn what_was_not_seen_is_told_apart_from_what_is_gone() {
    for (why, codes) in [
        (NoWorktree::Gone, &["worktree.gone"][..]),
        (NoWorktree::CommitNamed, &["worktree.gone"]),
        (NoWorktree::Elsewhere, &["worktree.not-judged"]),
        (NoWorktree::BranchOnly, &[]),
    ] {
        let spoil = |evidence: &mut Evidence| {
            evidence.worktree = None;
            evidence.no_worktree = why;
        };
        check(spoil, codes);
    }
    check(
        |evidence| {
            evidence.bundle.clear();
            evidence.bundle_out_of_reach = true;
        },
        &["bundle.not-judged"],
    );
}

#[test]
fn landing_rejects_only_what_cannot_land() {
    let conflict = Conflict { path: b"src/lib.rs".to_vec(), kinds: vec!["contents".to_owned()] };
    for (outcome, codes) in [
        (MergeOutcome::BaseGone, &["merge.base-gone"][..]),
        (MergeOutcome::Unrelated, &["merge.unrelated"]),
        (MergeOutcome::Conflicts(vec![conflict]), &["merge.conflict"]),
        (MergeOutcome::Nothing { tree: COMMIT }, &[]),
        (MergeOutcome::FastForward { tree: COMMIT }, &[]),
    ] {
        check(|e| e.landing = Some(landing(outcome)), codes);
    }
}

#[test]
fn commands_must_end_well_and_in_time() {
    let ran = |end, is_setup| {
        Commands::Ran(vec![CommandRun {
            command: "make test".to_owned(),
            end,
            output: String::new(),
            is_setup,
            project: None,
            taken_over_from: None,
            is_layered: false,
            took: Duration::ZERO,
            tests: None,
        }])
    };
    let run = |end| ran(end, false);
    check(|e| e.commands = run(CommandEnd::Status(0)), &[]);
    check(|e| e.commands = run(CommandEnd::Status(2)), &["commands.failed"]);
    let late = CommandEnd::TimedOut(Duration::from_secs(1));
    check(|e| e.commands = run(late), &["commands.timed-out"]);
    for end in [CommandEnd::Status(1), late] {
        check(|e| e.commands = ran(end, true), &["commands.setup-failed"]);
    }
    check(|e| e.commands = Commands::Skipped, &["commands.skipped"]);
    assert_eq!(finding::FindingCode::CommandsSkipped.severity(), finding::Severity::Note);
}
