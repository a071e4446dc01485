//! The entries below one hook event, and which of them are ours.
//!
//! Some hosts group handlers below a matcher, `{"matcher", "hooks": [handler…]}`; others list the handlers
//! themselves. An entry is either; [`handlers`] sees both alike.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode};
use serde_json::Value;

/// Our entries in a list, each as it would look without the handlers that are not ours.
pub(super) fn ours(list: &CstArray) -> Vec<Value> {
    let elements = list.elements();
    let ours = elements.iter().flat_map(|entry| {
        let ours = handlers(entry).into_iter().filter(is_ours);
        ours.filter_map(|handler| {
            let mut alone = entry.to_serde_value()?;
            if let Some(hooks) = alone.get_mut("hooks") {
                *hooks = Value::Array(vec![handler.to_serde_value()?]);
            }
            Some(alone)
        })
    });
    ours.collect()
}

/// Makes our entries of the list be exactly those of `template`, one handler each. Where an entry
/// was ours alone its place is used again; an entry that a person shares with us stays theirs.
pub(super) fn update(list: &CstArray, template: &CstArray) {
    let wanted = ours(template);
    let present = ours(list);
    if wanted.len() == present.len() && wanted.iter().all(|entry| present.contains(entry)) {
        return;
    }
    let place = take_out(list).unwrap_or(list.elements().len());
    for (offset, entry) in template.elements().iter().enumerate() {
        list.insert(place + offset, input(entry));
    }
}

/// Takes our handlers out, and every entry that has no handler left. Gives the place of the first
/// entry that went as a whole.
pub(super) fn take_out(list: &CstArray) -> Option<usize> {
    let mut first = None;
    for (index, entry) in list.elements().into_iter().enumerate() {
        let (ours, others): (Vec<_>, Vec<_>) = handlers(&entry).into_iter().partition(is_ours);
        if ours.is_empty() {
            continue;
        }
        if others.is_empty() {
            entry.remove();
            first = first.or(Some(index));
        } else {
            ours.into_iter().for_each(CstNode::remove);
        }
    }
    first
}

/// A node as a value to insert elsewhere, keys in their order.
pub(super) fn input(node: &CstNode) -> CstInputValue {
    if let Some(object) = node.as_object() {
        let members = object.properties().into_iter().filter_map(|member| {
            let name = member.decoded_name()?;
            Some((name, input(&member.value()?)))
        });
        CstInputValue::Object(members.collect())
    } else if let Some(array) = node.as_array() {
        CstInputValue::Array(array.elements().iter().map(input).collect())
    } else {
        match node.to_serde_value() {
            Some(Value::Bool(value)) => CstInputValue::Bool(value),
            Some(Value::Number(number)) => CstInputValue::Number(number.to_string()),
            Some(Value::String(text)) => CstInputValue::String(text),
            _ => CstInputValue::Null,
        }
    }
}

/// The handlers of an entry: those it groups, or itself.
fn handlers(entry: &CstNode) -> Vec<CstNode> {
    let group = entry.as_object().and_then(|o| o.array_value("hooks"));
    match group {
        Some(handlers) => handlers.elements(),
        None => vec![entry.clone()],
    }
}

/// Whether a handler runs `git-agent hook <event>` and nothing else, under whatever path and in whatever form. One that a person
/// wrote around it, as `git-agent hook stop && ./mine`, is theirs.
fn is_ours(handler: &CstNode) -> bool {
    let Some(handler) = handler.to_serde_value() else {
        return false;
    };
    let text = |key: &str| handler.get(key).and_then(Value::as_str);
    let program = ["command", "exec", "bash", "powershell"].map(text);
    let arguments = handler.get("args").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = program
        .into_iter()
        .flatten()
        .take(1)
        .flat_map(str::split_whitespace)
        .chain(arguments)
        .collect();
    let name = |word: &str| {
        let word = word.trim_matches(['"', '\'']);
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name.strip_suffix(".exe").unwrap_or(name).to_owned()
    };
    let is_plain = |words: &[&str]| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:".contains(c);
        !words.is_empty() && words.iter().all(|word| word.chars().all(plain))
    };
    match words.as_slice() {
        [program, "hook", rest @ ..] => name(program) == "git-agent" && is_plain(rest),
        [program, "agent", "hook", rest @ ..] => name(program) == "git" && is_plain(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonc_parser::ParseOptions;
    use jsonc_parser::cst::CstRootNode;

    #[test]
    fn our_handlers_are_known_by_their_command() {
        let ours = |handler: &str| {
            let root = CstRootNode::parse(handler, &ParseOptions::default()).expect("JSON");
            is_ours(&root.value().expect("a value"))
        };
        for handler in [
            r#"{"command":"git-agent hook pre-tool"}"#,
            r#"{"command":"git-agent","args":["hook","stop"]}"#,
            r#"{"exec":"git-agent","args":["hook","stop"]}"#,
            r#"{"command":"\"/opt/my/git-agent\" hook stop --flag"}"#,
            r#"{"command":"C:\\bin\\git-agent.exe hook stop"}"#,
            r#"{"command":"git agent hook pre-tool"}"#,
        ] {
            assert!(ours(handler), "{handler}");
        }
        for handler in [
            r#"{"command":"git-agent list"}"#,
            r#"{"command":"echo git-agent hook pre-tool"}"#,
            r#"{"command":"git-agent hook pre-tool && ./mine"}"#,
            r#"{"command":"git-agent hook pre-tool; ./mine"}"#,
            r#"{"command":"git-agent hook pre-tool | tee log"}"#,
            r#"{"command":"git-agent hook pre-tool 2>log"}"#,
            r#"{"command":"git-agent hook"}"#,
            r#"{"command":"my-git-agent hook pre-tool"}"#,
            r#"{"command":"git hook run pre-commit"}"#,
            r#"{"command":7}"#,
            r#"{"prompt":"git-agent hook"}"#,
            "[]",
            "null",
        ] {
            assert!(!ours(handler), "{handler}");
        }
    }
}
