//! A JSON settings file, edited in place: what is not ours keeps every byte.

use super::{HostWorktrees, Registration, Removal};
use crate::error::{Code, Error, Remedy, Result};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use std::collections::BTreeSet;

/// How the texts begin that mark a file or a key as ours.
const MARK: &str = "git-agent";

/// What some editors put in front of a text.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The text with our hooks as this version writes them.
pub(super) fn merge(
    registration: &Registration,
    existing: &str,
    worktrees: HostWorktrees,
) -> Result<String> {
    let template = SettingsDocument::template(registration)?;
    let unasked = worktrees == HostWorktrees::Host;
    let on_request = |name: &str| unasked && registration.on_request.contains(&name);
    if existing.trim().is_empty() {
        for (name, _) in template.events() {
            if on_request(&name) {
                template.drop_event(&name);
            }
        }
        return Ok(template.text());
    }
    let document = SettingsDocument::parse(registration, existing)?;
    let present = document.events();
    let wanted = template.events();
    for (name, list) in &present {
        // An earlier version registered events that this one does not.
        if !wanted.iter().any(|(event, _)| event == name) {
            document.take_out(name, list);
        }
    }
    for (name, entries) in wanted {
        let list = present.iter().find(|(event, _)| *event == name);
        let list = list.map(|(_, list)| list.clone());
        // What was asked for once stays, and is brought up to date.
        let in_use = list.as_ref().is_some_and(|list| !ours(list).is_empty());
        if in_use || !on_request(&name) {
            let list = list.unwrap_or_else(|| document.add_event(&name));
            update(&list, &entries);
        }
    }
    document.add_other_keys(&template);
    Ok(document.text())
}

/// The text without our hooks.
pub(super) fn remove(registration: &Registration, existing: &str) -> Result<Removal> {
    if existing.trim().is_empty() {
        return Ok(Removal::Unchanged);
    }
    let document = SettingsDocument::parse(registration, existing)?;
    let template = SettingsDocument::template(registration)?;
    let before = document.text();
    for (name, list) in document.events() {
        document.take_out(&name, &list);
    }
    document.drop_marks(&template);
    let after = document.text();
    Ok(if after == before {
        Removal::Unchanged
    } else if document.holds_nothing_but(&template) {
        Removal::Delete
    } else {
        Removal::Edited(after)
    })
}

/// A settings file of the shape that can be edited: an object whose `hooks`, where present, is an
/// object of lists, and which repeats no key down to there.
struct SettingsDocument {
    root: CstRootNode,
    top: CstObject,
    byte_order_mark: bool,
}

impl SettingsDocument {
    /// Parses JSON, with comments and trailing commas where the file has them. Nothing looser: a
    /// host that reads plain JSON would not read it, and we must not vouch for it.
    fn parse(registration: &Registration, text: &str) -> Result<SettingsDocument> {
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let stripped = text.strip_prefix(BYTE_ORDER_MARK);
        let root = CstRootNode::parse(stripped.unwrap_or(text), &options)
            .map_err(|error| refusal(registration, &error.to_string()))?;
        // A file of nothing but comments gets its object here.
        let top = match root.value() {
            None => Some(root.object_value_or_set()),
            Some(value) => value.as_object(),
        };
        let top = top.ok_or_else(|| refusal(registration, "it is not a JSON object"))?;
        require_editable(&top).map_err(|why| refusal(registration, &why))?;
        Ok(SettingsDocument { root, top, byte_order_mark: stripped.is_some() })
    }

    fn template(registration: &Registration) -> Result<SettingsDocument> {
        SettingsDocument::parse(registration, registration.template)
    }

    fn text(&self) -> String {
        let mark = if self.byte_order_mark { BYTE_ORDER_MARK } else { "" };
        format!("{mark}{}", self.root)
    }

    /// Every hook event and its entries, in order.
    fn events(&self) -> Vec<(String, CstArray)> {
        let hooks = self.top.object_value("hooks");
        let events = hooks.into_iter().flat_map(|hooks| hooks.properties());
        events.filter_map(|event| Some((event.decoded_name()?, event.array_value()?))).collect()
    }

    fn add_event(&self, name: &str) -> CstArray {
        let hooks = self.top.object_value_or_set("hooks");
        hooks.array_value_or_set(name)
    }

    /// Takes our entries out of an event, and the event and `hooks` with them when that empties it.
    fn take_out(&self, name: &str, list: &CstArray) {
        if ours(list).is_empty() {
            return;
        }
        take_out(list);
        if list.elements().is_empty() {
            self.drop_event(name);
        }
    }

    fn drop_event(&self, name: &str) {
        let Some(events) = self.top.object_value("hooks") else {
            return;
        };
        if let Some(event) = events.get(name) {
            event.remove();
        }
        if events.properties().is_empty()
            && let Some(hooks) = self.top.get("hooks")
        {
            hooks.remove();
        }
    }

    /// Adds the template's keys beside `hooks` that are missing, and renews those that mark a file
    /// as ours. A value that the user chose stays.
    fn add_other_keys(&self, template: &SettingsDocument) {
        for (index, wanted) in template.top.properties().into_iter().enumerate() {
            let (Some(name), Some(value)) = (wanted.decoded_name(), wanted.value()) else {
                continue;
            };
            match self.top.get(&name) {
                // The version of a format holds for a whole file: only its host brings an older one up to date.
                None if name.starts_with('$') => {}
                None => {
                    self.top.insert(index, &name, input(&value));
                }
                Some(present) if is_mark(&present) => {
                    if present.to_serde_value() != wanted.to_serde_value() {
                        present.set_value(input(&value));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Drops the keys that mark a file as ours.
    fn drop_marks(&self, template: &SettingsDocument) {
        for wanted in template.top.properties() {
            let present = wanted.decoded_name().and_then(|name| self.top.get(&name));
            if let Some(mark) = present.filter(is_mark) {
                mark.remove();
            }
        }
    }

    /// Whether only keys with the template's own values are left, and no comment.
    fn holds_nothing_but(&self, template: &SettingsDocument) -> bool {
        let known = self.top.properties().into_iter().all(|left| {
            let name = left.decoded_name();
            let known = name.and_then(|name| template.top.get(&name));
            known.is_some_and(|known| known.to_serde_value() == left.to_serde_value())
        });
        // A comment is a person's, and a file that has one is not deleted.
        let without_comments = serde_json::from_str::<Value>(&self.root.to_string()).is_ok();
        known && without_comments
    }
}

/// Refuses what an edit could get wrong.
fn require_editable(top: &CstObject) -> Result<(), String> {
    require_distinct(top)?;
    let Some(hooks) = top.get("hooks") else {
        return Ok(());
    };
    let hooks = hooks.object_value().ok_or("`hooks` is not an object")?;
    require_distinct(&hooks)?;
    let odd = hooks.properties().into_iter().find(|e| e.array_value().is_none());
    match odd.and_then(|event| event.decoded_name()) {
        Some(name) => Err(format!("`hooks.{name}` is not a list")),
        None => Ok(()),
    }
}

/// Refuses an object with a key that stands twice: hosts read the last one, an edit would change
/// the first.
fn require_distinct(object: &CstObject) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for property in object.properties() {
        let name = property.decoded_name().ok_or("a key cannot be read")?;
        if !seen.insert(name.clone()) {
            return Err(format!("the key `{name}` stands twice"));
        }
    }
    Ok(())
}

fn is_mark(property: &CstObjectProp) -> bool {
    let value = property.to_serde_value();
    let text = value.as_ref().and_then(Value::as_str);
    text.is_some_and(|text| text.starts_with(MARK))
}

fn refusal(registration: &Registration, why: &str) -> Error {
    let Registration { host, path, .. } = registration;
    Error::new(Code::HostSettingsInvalid, format!("could not edit {path}: {why}"))
        .remedy("repair the file; then, to register the hooks", Remedy::Register(host.to_string()))
}

// The entries below one hook event, and which of them are ours.
//
// Some hosts group handlers below a matcher, `{"matcher", "hooks": [handler…]}`; others list the handlers
// themselves. An entry is either; [`handlers`] sees both alike.

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
    // Without regard to the order, so that one which a person has chosen stays.
    if wanted.len() == present.len() && wanted.iter().all(|entry| present.contains(entry)) {
        return;
    }
    // Into the place of the old ones, between what others have before and behind them.
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
    // A command with more around our call, such as a pipe, is a person's own and stays.
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
