use git_agent::error::Code;
use git_agent::hosts::registrations;
use git_agent::hosts::settings::{HostWorktrees, Registration, Removal, merge, remove};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The hosts whose file is JSON that others write as well.
fn json_hosts() -> Vec<Registration> {
    registrations().filter(|known| known.whole_file.is_none()).collect()
}

fn host(name: &str) -> Registration {
    let mut all = registrations();
    all.find(|known| known.host == name).expect("a host")
}

fn merged(host: &Registration, existing: Option<&str>) -> String {
    merge(host, existing, HostWorktrees::Host).expect("merge").text
}

/// Whether our hooks are in a settings file, as this version writes them.
fn is_current(host: &Registration, text: &str) -> bool {
    let merged = merge(host, Some(text), HostWorktrees::Host).expect("merge");
    !merged.changed && remove(host, Some(text)).expect("remove") != Removal::Unchanged
}

#[test]
fn a_fresh_file_is_whole_installed_and_goes_again() {
    for host in &registrations().collect::<Vec<_>>() {
        assert_eq!(remove(host, None).expect("remove"), Removal::Unchanged);
        for nothing in [None, Some(""), Some(" \n")] {
            let text = merged(host, nothing);
            assert!(text.ends_with('\n'), "{}", host.host);
            assert!(!text.contains("worktree-"), "{} takes worktrees unasked", host.host);
            assert_eq!(merged(host, Some(&text)), text);
            assert!(is_current(host, &text));
            assert_eq!(remove(host, Some(&text)).expect("remove"), Removal::Delete);
        }
    }
}

#[test]
fn templates_are_plain_json_with_the_keys_their_hosts_accept() {
    let keys = |host: &Registration| {
        let template: Value = serde_json::from_str(host.template).expect("JSON");
        let object = template.as_object().expect("object");
        object.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    // Codex refuses a file with any other key at the top.
    let found: Vec<_> = json_hosts().iter().map(keys).collect();
    assert_eq!(
        found,
        ["hooks", "description hooks", "hooks", "$version hooks", "hooks version", "hooks version"]
    );
}

#[test]
fn the_plugin_has_the_hooks_that_init_registers() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plugin/git-agent");
    let json = |name: &str| -> Value {
        let text = std::fs::read_to_string(root.join(name)).expect("there");
        serde_json::from_str(&text).expect("JSON")
    };
    for (name, file) in [("claude", "hooks/hooks.json"), ("codex", ".codex-plugin/plugin.json")] {
        let registered: Value = serde_json::from_str(&merged(&host(name), None)).expect("JSON");
        assert_eq!(json(file)["hooks"], registered["hooks"], "{name}");
    }
}

#[test]
fn comments_and_formatting_stay() {
    let theirs = "\u{feff}{\r\n\t// why we log\r\n\t\"model\": \"x\", /* one */\r\n\t\"hooks\": {\r\n\t\t\"PreToolUse\": [\r\n\t\t\t// theirs\r\n\t\t\t{ \"matcher\": \"Bash\", \"hooks\": [{\"type\":\"command\",\"command\":\"./log.sh\"}] },\r\n\t\t],\r\n\t},\r\n}\r\n";
    let text = merged(&host("codex"), Some(theirs));
    let shown = text.replace(['\r', '\u{feff}'], "").replace('\t', "→");
    insta::assert_snapshot!(shown, @r#"
    {
    →"description": "git-agent hooks, version 1",
    →// why we log
    →"model": "x", /* one */
    →"hooks": {
    →→"PreToolUse": [
    →→→// theirs
    →→→{ "matcher": "Bash", "hooks": [{"type":"command","command":"./log.sh"}] },
    →→→{
    →→→→"matcher": "^(Bash|apply_patch|spawn_agent|mcp__.*)$",
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook pre-tool",
    →→→→→→"timeout": 10,
    →→→→→→"statusMessage": "scope",
    →→→→→},
    →→→→],
    →→→},
    →→],
    →→"PostToolUse": [
    →→→{
    →→→→"matcher": "^(Bash|mcp__.*)$",
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook post-tool",
    →→→→→→"timeout": 60,
    →→→→→→"statusMessage": "scope"
    →→→→→}
    →→→→]
    →→→}
    →→],
    →→"SessionStart": [
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook session-start"
    →→→→→}
    →→→→]
    →→→}
    →→],
    →→"UserPromptSubmit": [
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook prompt",
    →→→→→→"timeout": 10
    →→→→→}
    →→→→]
    →→→}
    →→],
    →→"PermissionRequest": [
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook notification",
    →→→→→→"timeout": 10
    →→→→→}
    →→→→]
    →→→}
    →→],
    →→"Stop": [
    →→→{
    →→→→"hooks": [
    →→→→→{
    →→→→→→"type": "command",
    →→→→→→"command": "git-agent hook stop",
    →→→→→→"timeout": 600
    →→→→→}
    →→→→]
    →→→}
    →→],
    →},
    }
    "#);
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert!(text.starts_with('\u{feff}'));
    let back = remove(&host("codex"), Some(&text)).expect("remove");
    assert_eq!(back, Removal::Edited(theirs.to_owned()));
}

#[test]
fn an_older_entry_is_replaced_where_it_stands_and_others_stay() {
    let old = r#"{
  "hooks": {
    "PreToolUse": [
      {"matcher": "Read", "hooks": [{"type": "command", "command": "./first.sh"}]},
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "/opt/git-agent hook pre-tool"}]},
      {"matcher": "Bash", "hooks": [
        {"type": "command", "command": "./mine.sh"},
        {"type": "command", "command": "git agent hook pre-tool"}
      ]}
    ],
    "PreCompact": [{"hooks": [{"type": "command", "command": "git-agent hook pre-tool"}]}],
    "PostCompact": []
  }
}
"#;
    assert!(!is_current(&host("claude"), old));
    let text = merged(&host("claude"), Some(old));
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let entries = value["hooks"]["PreToolUse"].as_array().expect("list");
    let first = |entry: &Value| entry["hooks"][0]["command"].as_str().map(str::to_owned);
    let commands: Vec<_> = entries.iter().filter_map(first).collect();
    assert_eq!(
        commands,
        ["./first.sh", "git-agent hook pre-tool", "git-agent hook pre-tool", "./mine.sh"]
    );
    assert_eq!(entries[3]["hooks"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["hooks"]["PreCompact"], Value::Null);
    assert_eq!(value["hooks"]["PostCompact"], json!([]));
    assert_eq!(merged(&host("claude"), Some(&text)), text);
}

#[test]
fn worktrees_are_taken_on_request_and_kept_after() {
    let asked = merge(&host("claude"), Some("{}"), HostWorktrees::Ours).expect("merge");
    assert!(asked.changed && asked.text.contains("worktree-create"));
    assert_eq!(merged(&host("claude"), Some(&asked.text)), asked.text);
    assert!(is_current(&host("claude"), &asked.text));
    let gone = remove(&host("claude"), Some(&asked.text)).expect("remove");
    assert_eq!(gone, Removal::Delete);
}

#[test]
fn a_users_own_values_beside_the_hooks_stay() {
    let theirs = r#"{"description": "our team's hooks", "hooks": {}}"#;
    let value: Value = serde_json::from_str(&merged(&host("codex"), Some(theirs))).expect("JSON");
    assert_eq!(value["description"], "our team's hooks");
    let marked = r#"{"description": "git-agent hooks, version 0", "hooks": {}}"#;
    let value: Value = serde_json::from_str(&merged(&host("codex"), Some(marked))).expect("JSON");
    assert_eq!(value["description"], "git-agent hooks, version 1");
}

#[test]
fn files_that_cannot_be_edited_safely_are_refused() {
    let cases = [
        "{",
        "[]",
        "7",
        r#"{"hooks": []}"#,
        r#"{"hooks": null}"#,
        r#"{"hooks": {"Stop": {}}}"#,
        r#"{"hooks": {}, "hooks": {}}"#,
        r#"{"hooks": {"Stop": [], "Stop": []}}"#,
        r#"{"a": 1 "b": 2}"#,
        "{'a': 1}",
        "{a: 1}",
        &"[".repeat(100_000),
    ];
    for text in cases {
        for host in &json_hosts() {
            let error = merge(host, Some(text), HostWorktrees::Host).expect_err(text);
            assert_eq!(error.code(), Code::HostSettingsInvalid);
            assert!(error.message().contains(host.path), "{error}");
            assert!(remove(host, Some(text)).is_err(), "{text}");
        }
    }
}

#[test]
fn the_opencode_plugin_is_replaced_only_where_it_is_ours() {
    let host = &host("opencode");
    let theirs = "export const Mine = async () => ({});\n";
    let error = merge(host, Some(theirs), HostWorktrees::Host).expect_err("foreign");
    assert_eq!(error.code(), Code::PathExists);
    assert_eq!(remove(host, Some(theirs)).expect("remove"), Removal::Unchanged);
    let old = "// git-agent opencode plugin, version 0\nold();\n";
    assert_eq!(remove(host, Some(old)).expect("remove"), Removal::Delete);
    assert!(!is_current(host, old));
    assert_eq!(merged(host, Some(old)), host.template);
    let converted = host.template.replace('\n', "\r\n");
    assert!(is_current(host, &converted));
}

/// An entry of a user's, in one of the two shapes or none.
fn entry() -> impl Strategy<Value = Value> {
    let handler =
        "[a-z./ ]{0,6}".prop_map(|command| json!({"type": "command", "command": command}));
    prop_oneof![
        handler.clone(),
        prop::collection::vec(handler, 0..3)
            .prop_map(|hooks| json!({"matcher": "x", "hooks": hooks})),
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
    ]
}

fn settings() -> impl Strategy<Value = Value> {
    let events = &["PreToolUse", "preToolUse", "BeforeTool", "Stop", "WorktreeCreate", "Other"][..];
    let hooks = prop::collection::btree_map(
        prop::sample::select(events).prop_map(str::to_owned),
        prop::collection::vec(entry(), 0..4),
        0..4,
    );
    let keys = &["model", "version", "description", "permissions", "ä\"\\"][..];
    let values = prop_oneof![Just(json!(1)), Just(json!([])), Just(json!({"a": [1.5, "é"]}))];
    let others = prop::collection::btree_map(
        prop::sample::select(keys).prop_map(str::to_owned),
        values,
        0..4,
    );
    (others, prop::option::of(hooks)).prop_map(|(others, hooks)| {
        let mut all = json!(others);
        if let Some(hooks) = hooks {
            all["hooks"] = json!(hooks);
        }
        all
    })
}

proptest! {
    #[test]
    fn merging_adds_only_ours_and_removing_gives_the_rest_back(
        theirs in settings(),
        host in prop::sample::select(json_hosts()),
        worktrees in prop::sample::select(&[HostWorktrees::Host, HostWorktrees::Ours][..]),
        pretty in any::<bool>(),
    ) {
        let text = if pretty { format!("{theirs:#}\n") } else { theirs.to_string() };
        let added = merge(&host, Some(&text), worktrees).expect("merge");
        prop_assert!(added.changed);
        prop_assert!(is_current(&host, &added.text));
        let again = merge(&host, Some(&added.text), worktrees).expect("merge");
        prop_assert!(!again.changed, "{}", added.text);
        let left = match remove(&host, Some(&added.text)).expect("remove") {
            Removal::Edited(left) => serde_json::from_str(&left).expect("JSON"),
            Removal::Delete => json!({}),
            Removal::Unchanged => panic!("nothing removed"),
        };
        // What we had to add beside the hooks may stay; an empty `hooks` or event may go.
        let ours: Value = serde_json::from_str(host.template).expect("JSON");
        prop_assert_eq!(bare(left, &ours), bare(theirs, &ours));
    }

    #[test]
    fn any_text_is_merged_or_refused_without_a_panic(text in r#"[\[\]{}:,"/*a\\\n 1]{0,60}"#) {
        for host in registrations() {
            let _ = remove(&host, Some(&text));
            if let Ok(merged) = merge(&host, Some(&text), HostWorktrees::Ours) {
                prop_assert!(is_current(&host, &merged.text));
            }
        }
    }
}

/// Settings without empty events, an empty `hooks` and the values a template brings along.
fn bare(mut settings: Value, template: &Value) -> Value {
    if let Some(hooks) = settings.get_mut("hooks").and_then(Value::as_object_mut) {
        hooks.retain(|_, entries| entries != &json!([]));
    }
    if let Some(all) = settings.as_object_mut() {
        all.retain(|key, value| match key.as_str() {
            "hooks" => value != &json!({}),
            key => template.get(key) != Some(value),
        });
    }
    settings
}
