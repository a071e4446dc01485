//! One line of an agent's note: `{"t":…,"a":…,"e":…,"by":…,"o":…,"p":…,"x":[…],"d":{…}}`, in that key order; `x` is left out
//! unless lines were there already that are dated later.
//!
//! The first key has a fixed width, so the byte order of lines is their time order and `git notes merge
//! -s cat_sort_uniq` keeps a row a row. The format only grows: readers skip keys they do not know,
//! and a kind or a payload they do not know is [`What::Unknown`], never an error.

mod fact;

use crate::domain::life::event::{
    Base, Competed, Exited, ProgramVersion, Spawned, Spawning, Started, Verified,
};
use crate::domain::life::report::{AuditVerdict, Audited};
use crate::domain::value::named::short_hex;
use crate::domain::{
    AgentId, AgentName, Ending, Event, HostSession, Isolation, Oid, OperationId, Stamp, What,
};
use crate::error::{Code, Error, Result};
use fact::EventJson;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// A line with its line feed stays below this many bytes: a row is read whole on every append, and
/// bigger things are objects of their own.
pub const LIMIT: usize = 1024;

/// A line that is longer is no event, whatever it says: later versions may write longer ones, but a row from elsewhere
/// must not bring a text that fills the memory.
const LONGEST: usize = 64 * LIMIT;

#[skip_serializing_none]
#[derive(Serialize)]
struct WrittenEvent<'a> {
    t: String,
    a: String,
    e: &'a str,
    by: &'a str,
    o: Option<&'a str>,
    p: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    x: &'a [String],
    d: Value,
}

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    t: Cow<'a, str>,
    #[serde(borrow)]
    a: Cow<'a, str>,
    #[serde(borrow)]
    e: Cow<'a, str>,
    #[serde(borrow)]
    by: Cow<'a, str>,
    #[serde(borrow, default)]
    o: EventJson<'a>,
    #[serde(borrow)]
    p: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    x: EventJson<'a>,
    #[serde(borrow, default)]
    d: EventJson<'a>,
}

/// Writes an event as a line without its line feed. Free texts are cut to make it fit.
///
/// # Errors
/// `event-too-long` when the rest alone does not fit.
pub fn encode(event: &Event) -> Result<String> {
    let mut what = Cow::Borrowed(&event.what);
    let mut ahead = event.ahead.as_slice();
    loop {
        let line = render(event, &what, ahead)?;
        // With its line feed it must stay below the limit.
        let excess = (line.len() + 2).saturating_sub(LIMIT);
        if excess == 0 {
            return Ok(line);
        }
        // One tells that clocks were ahead; each further one only places one more line.
        if let [kept @ .., _] = ahead
            && !kept.is_empty()
        {
            ahead = kept;
            continue;
        }
        // Escaping only lengthens, so a byte of text given up is at least one byte here.
        if !what.to_mut().shorten(excess) {
            return Err(Error::new(
                Code::EventTooLong,
                format!(
                    "the `{}` event of agent {} takes {} bytes, and a ledger line has at most {}",
                    what.kind(),
                    event.agent.short(),
                    line.len() + 1,
                    LIMIT - 1
                ),
            )
            .hint("to make it fit, use shorter names and a shorter worktree path"));
        }
    }
}

/// Whether a line holds all that an event says.
///
/// # Errors
/// `bug` when it has no JSON form.
pub fn fits(event: &Event) -> Result<bool> {
    Ok(render(event, &event.what, &event.ahead)?.len() + 1 < LIMIT)
}

fn render(event: &Event, what: &What, ahead: &[String]) -> Result<String> {
    serde_json::to_string(&WrittenEvent {
        t: event.at.to_string(),
        a: event.agent.to_string(),
        e: what.kind(),
        by: &event.by,
        o: event.operation.as_ref().map(OperationId::as_str),
        p: event.previous.as_deref(),
        x: ahead,
        d: facts(what)?,
    })
    .map_err(no_json_form)
}

/// Reads a line; `None` when it is none of ours (foreign text, a blank line, a broken stamp, a line without end).
pub fn decode(line: &[u8]) -> Option<Event> {
    // Measured before the line is parsed.
    let line = Some(line).filter(|line| line.len() <= LONGEST)?;
    let line: Read<'_> = serde_json::from_slice(line).ok()?;
    Some(Event {
        at: Stamp::parse(&line.t)?,
        agent: AgentId::parse(&line.a)?,
        by: line.by.into_owned(),
        operation: line.o.as_str().and_then(OperationId::parse),
        previous: line.p.map(Cow::into_owned),
        ahead: { line.x.as_list().iter() }
            .filter_map(EventJson::as_str)
            .map(str::to_owned)
            .collect(),
        what: parse_what(&line.e, &line.d),
    })
}

/// What happened. A kind that is known means something else than we know where a later version says so: an event that changes
/// how others are judged names the lowest version that understands it.
fn parse_what(kind: &str, d: &EventJson<'_>) -> What {
    let needs = d.get("needs").map(|needs| {
        let version = needs.as_str().and_then(ProgramVersion::parse);
        // Something is needed that we cannot even name, so we do not have it.
        version.unwrap_or(ProgramVersion::UNREADABLE)
    });
    let needs = needs.filter(|needs| *needs > ProgramVersion::UNDERSTOOD);
    let known = needs.is_none().then(|| parse_facts(kind, d)).flatten();
    // The line stays in the row and in the chain of digests; only its meaning is unknown.
    known.unwrap_or_else(|| What::Unknown { kind: kind.to_owned(), needs })
}

/// What the next line says of this one in its `p`: the first 16 hex digits of its SHA-256.
pub fn digest(line: &[u8]) -> String {
    // 64 bits tell lines of one row from each other; the whole digest would cost every line 48
    // bytes more.
    short_hex(&Sha256::digest(line), 8)
}

fn facts(what: &What) -> Result<Value> {
    let mut value = serde_json::to_value(what).map_err(no_json_form)?;
    if let Value::Object(map) = &mut value {
        // What an unknown line needs is in that line, which is never written anew.
        let needs = what.needs().filter(|_| !matches!(what, What::Unknown { .. }));
        map.extend(needs.map(|needs| ("needs".to_owned(), Value::String(needs.to_string()))));
        // Absent means not applicable; `null` would mean "could not be determined".
        map.retain(|_, value| !value.is_null());
    }
    Ok(value)
}

fn no_json_form(error: serde_json::Error) -> Error {
    Error::bug("an event must have a JSON form").because(error)
}

fn parse_facts(kind: &str, d: &EventJson<'_>) -> Option<What> {
    let text = |key: &str| d.get(key).and_then(EventJson::as_str).map(str::to_owned);
    let oid = |key: &str| d.get(key).and_then(EventJson::as_str).and_then(Oid::from_hex);
    let number = |key: &str| d.get(key).and_then(EventJson::as_u64);
    let list = |key: &str| -> Vec<&str> {
        let items = d.get(key).map_or(&[][..], EventJson::as_list);
        items.iter().filter_map(EventJson::as_str).collect()
    };
    let is = |key: &str| d.get(key).and_then(EventJson::as_bool) == Some(true);
    let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
    let (pid, run) = (|| small("pid"), || small("run"));
    Some(match kind {
        "spawning" => What::Spawning(Spawning {
            role: text("role")?,
            isolation: Isolation::parse(&text("isolation")?)?,
            description: text("description")?,
            // A name that breaks the rules costs the agent its name and not its life.
            name: text("name").and_then(|name| AgentName::parse(&name).ok()),
            parent: text("parent").and_then(|id| AgentId::parse(&id)),
            base: Base { refname: text("base_ref"), oid: oid("base")? },
            dna: text("dna")?,
            branch: text("branch"),
            worktree: text("worktree"),
            pid: pid()?,
        }),
        "spawned" => What::Spawned(Spawned {
            policy: oid("policy")?,
            spec_sha: text("spec_sha")?,
            baseline: oid("baseline"),
        }),
        "started" => What::Started(Started {
            run: run(),
            command: text("command")?,
            pid: pid()?,
            limit_ms: number("limit_ms"),
            sandbox: text("sandbox"),
            // It goes into the command line of a host, and the row may come from elsewhere.
            model: text("model").filter(|model| HostSession::is_id(model)),
            by_hand: is("by_hand"),
        }),
        "exited" => What::Exited(Exited {
            run: run(),
            code: number("code").and_then(|code| u8::try_from(code).ok())?,
            // A later version may know more ways to end; the exit code still says whether it went
            // well.
            ended: text("ended").and_then(|word| Ending::parse(&word)),
            log_bytes: number("log_bytes"),
            asked: is("asked"),
            session: HostSession {
                id: text("session").filter(|id| HostSession::is_id(id)),
                cost_micro_usd: number("cost_micro_usd"),
                input_tokens: number("input_tokens"),
                output_tokens: number("output_tokens"),
            },
        }),
        "committed" => What::Committed { commit: oid("commit")?, tree: oid("tree")? },
        "verified" => What::Verified(Verified {
            accepted: d.get("accepted").and_then(EventJson::as_bool)?,
            tip: oid("tip")?,
            tree: oid("tree")?,
            base: oid("base")?,
            merged_tree: oid("merged_tree"),
            bundle: oid("bundle"),
            policy: oid("policy")?,
            findings: list("findings").into_iter().map(str::to_owned).collect(),
            fails_with: text("fails_with").and_then(|id| AgentId::parse(&id)),
            into: text("into"),
        }),
        "unjudged" => What::Unjudged { reason: text("reason")? },
        "done" => What::Done { summary: text("summary")?, whole: oid("whole") },
        "failed" => What::Failed { reason: text("reason")?, whole: oid("whole") },
        "merged" => What::Merged {
            commit: oid("commit")?,
            into: text("into")?,
            // Absent in rows of earlier versions, as are `whole` and `baseline` above.
            tip: oid("tip"),
            from: oid("from"),
        },
        "rejected" => What::Rejected { reason: text("reason")?, whole: oid("whole") },
        "deferred" => What::Deferred { reason: text("reason")?, whole: oid("whole") },
        "amended" => {
            What::Amended { policy: oid("policy")?, reason: text("reason")?, whole: oid("whole") }
        }
        "competed" => What::Competed(Competed {
            best: text("best")?,
            place: small("place")?,
            of: small("of")?,
            accepted: d.get("accepted").and_then(EventJson::as_bool)?,
            host: text("host"),
        }),
        "audited" => What::Audited(Audited {
            // Without an auditor a person has said it, so one whose id cannot be read is not left out.
            auditor: match text("auditor") {
                Some(id) => Some(AgentId::parse(&id)?),
                None => None,
            },
            run: run(),
            verdict: AuditVerdict::parse(&text("verdict")?)?,
            tip: oid("tip")?,
            tree: oid("tree")?,
            reason: text("reason")?,
        }),
        "discarded" => What::Discarded { tip: oid("tip") },
        "salvaged" => What::Salvaged { commit: oid("commit")? },
        "rescued" => What::Rescued { to: text("to")? },
        "reopened" => What::Reopened {},
        "expired" => What::Expired {
            commits: list("commits").into_iter().filter_map(Oid::from_hex).collect(),
        },
        "renamed" => What::Renamed {
            // A name that breaks the rules leaves the line unknown, and the agent as it was called.
            name: match text("name") {
                Some(name) => Some(AgentName::parse(&name).ok()?),
                None => None,
            },
            task: text("task"),
        },
        "undone" => What::Undone {
            operation: text("operation").and_then(|id| OperationId::parse(&id))?,
            revert: oid("revert"),
        },
        "noted" => What::Noted { text: text("text")? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
