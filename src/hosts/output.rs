//! Reading what a host prints.

use serde_json::Value;

/// The text at a JSON pointer, trimmed.
pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    Some(value.pointer(pointer)?.as_str()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use crate::hosts::HOSTS;

    #[test]
    fn output_of_another_form_has_no_last_words() {
        for host in HOSTS {
            for output in ["", "{", "[]", "{\"result\": 3}", "{\"error\":{}}", "plain"] {
                assert_eq!(host.last_words(output), None, "{host:?} {output}");
            }
        }
    }
}
