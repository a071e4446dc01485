//! What agent hosts write to their standard output when they are started by a recipe of
//! [`crate::domain::host_command`], and where in it the agent's own words are.

use crate::domain::host_command::Host;
use serde_json::Value;

/// The agent's last words; `None` when the output is not what the host is known to write.
pub fn last_words(host: Host, output: &str) -> Option<String> {
    match host {
        Host::Claude => text(&serde_json::from_str(output.trim()).ok()?, &["result"]),
        Host::Gemini => text(&first_object(output)?, &["response"]),
        Host::Codex => output.lines().rev().find_map(message),
        Host::Aider | Host::Shell => None,
    }
}

/// The text of one line of Codex, when it is a finished message of the agent.
fn message(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    let is_message =
        event.get("type")? == "item.completed" && event.pointer("/item/type")? == "agent_message";
    text(&event, &["item", "text"]).filter(|_| is_message)
}

/// Gemini may write notes of its own before the object.
fn first_object(output: &str) -> Option<Value> {
    let start = output.find('{')?;
    let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter();
    values.next()?.ok()
}

fn text(value: &Value, path: &[&str]) -> Option<String> {
    let found = path.iter().try_fold(value, |value, key| value.get(key))?;
    Some(found.as_str()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_each_host_are_found() {
        let check = |host, output: &str, expected: Option<&str>| {
            assert_eq!(last_words(host, output).as_deref(), expected, "{output}");
        };
        check(
            Host::Claude,
            "{\"type\":\"result\",\"is_error\":false,\"result\":\"Done.\\n\"}\n",
            Some("Done."),
        );
        check(
            Host::Codex,
            "{\"type\":\"thread.started\"}\n\
             {\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"First.\"}}\n\
             {\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Done.\"}}\n\
             {\"type\":\"item.completed\",\"item\":{\"type\":\"reasoning\",\"text\":\"Hm.\"}}\n\
             {\"type\":\"turn.completed\"}\n",
            Some("Done."),
        );
        check(
            Host::Gemini,
            "Loaded cached credentials.\n{\n \"response\": \"Done.\", \"stats\": {}\n}\n",
            Some("Done."),
        );
        check(Host::Shell, "{\"result\":\"x\"}", None);
        for host in Host::ALL {
            for output in ["", "{", "[]", "{\"result\": 3}", "{\"error\":{}}", "plain"] {
                check(host, output, None);
            }
        }
    }
}
