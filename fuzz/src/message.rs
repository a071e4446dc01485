//! A message: as the commit that holds it, as a file in a spool, and as what somebody asks to be sent.
//! Whatever is read is written back as it was, and nothing that breaks a rule can be sent.

use git_agent::domain::mail::message_rules::Draft;
use git_agent::wire::row::message::spooled::{self, Content};
use git_agent::wire::row::message::{self, payload};

/// One message in each of its forms.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(read) = message::decode(&text) {
        let written = message::encode(&read);
        assert_eq!(message::decode(&written).as_ref(), Some(&read));
        assert!(!written.contains('\0'));
    }
    match spooled::read(data) {
        Ok(Content::Message(spooled)) => {
            let written = spooled.to_bytes();
            assert_eq!(spooled::read(&written), Ok(Content::Message(spooled)));
        }
        Ok(Content::Receipt(..)) => {}
        Ok(Content::Declaration(what)) => {
            let declared = spooled::Declared::new(&what).expect("a declaration");
            let read = spooled::read(&declared.to_bytes());
            assert_eq!(read, Ok(Content::Declaration(what)));
        }
        Ok(Content::Request(asked)) => {
            let written = serde_json::to_vec(&asked).expect("JSON");
            assert!(matches!(spooled::read(&written), Ok(Content::Request(_))));
        }
        Err(why) => assert!(!why.is_empty()),
    }
    draft(&text);
}

/// The lines are type, sender, receivers and priority; what is left is the payload.
fn draft(text: &str) {
    let mut lines = text.splitn(5, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (kind, from, to, priority) = (next(), next(), next(), next());
    // Whoever could not read the payload has said so already.
    let Ok(payload) = payload::parse(next()) else {
        return;
    };
    let draft = Draft {
        kind,
        from,
        to: payload::split_names(to).filter(|name| !name.is_empty()).collect(),
        priority: Some(priority).filter(|word| !word.is_empty()),
        re: None,
        payload: Some(payload),
        ..Draft::default()
    };
    match draft.check() {
        Ok(letter) => {
            assert!(!letter.from.as_str().contains(char::is_control));
            let missing = letter.kind.required().iter();
            let mut missing = missing.filter(|field| !is_address(field));
            assert!(missing.all(|field| letter.payload.field(field).is_some()));
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            let acts = |problem: &String| problem.contains(char::is_control);
            assert!(!problems.iter().any(acts), "{problems:?}");
        }
    }
}

/// Whether a field is on the outside of a message.
fn is_address(field: &str) -> bool {
    matches!(field, "from_agent" | "to_agent" | "to_agents")
}
