//! An agent's life as OpenTelemetry spans, in the JSON encoding of OTLP/HTTP (`ExportTraceServiceRequest`): a span
//! for the agent with an event for each line of its row, and below it one for each run. The attributes are those of
//! the semantic conventions for generative AI, which are in development; ours begin with `git_agent.`.

use crate::domain::value::named::{first_half, short_hex};
use crate::domain::{Agent, Event, HostSession, Oid, Run, State, What};
use crate::wire::put;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// `SPAN_KIND_INTERNAL`
const INTERNAL: u8 = 1;
/// `STATUS_CODE_UNSET`
const UNSET: u8 = 0;
/// `STATUS_CODE_OK`
const OK: u8 = 1;
/// `STATUS_CODE_ERROR`
const ERROR: u8 = 2;

/// The spans of an agent and its events.
pub fn spans(agent: &Agent, events: &[Event]) -> Value {
    let runs = runs(events);
    let mut spans = vec![whole(agent, events, &runs)];
    spans.extend(runs.iter().map(|run| of_run(agent, run)));
    let version = env!("CARGO_PKG_VERSION");
    let service = attributes([
        ("service.name", Some("git-agent".into())),
        ("service.version", Some(version.into())),
    ]);
    json!({
        "resourceSpans": [{
            "resource": { "attributes": service },
            "scopeSpans": [{
                "scope": { "name": "git-agent", "version": version },
                "spans": spans,
            }],
        }],
    })
}

/// Every run that the events tell of, oldest first.
fn runs(events: &[Event]) -> Vec<Run> {
    let mut numbers: Vec<u32> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::Started(started) => started.run,
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    // Rows of two machines that were gathered may both tell of a run of one number.
    numbers.dedup();
    let runs = numbers.into_iter();
    runs.filter_map(|number| Run::find(events, number)).collect()
}

fn whole(agent: &Agent, events: &[Event], runs: &[Run]) -> Value {
    let name = agent.name.as_ref().map(ToString::to_string);
    let sessions = || runs.iter().filter_map(|run| Some(&run.end.as_ref()?.0.session));
    let total = |count: fn(&HostSession) -> Option<u64>| {
        let counts: Vec<u64> = sessions().filter_map(count).collect();
        // Nothing counted is not the same as nothing used, so no 0 stands for it.
        (!counts.is_empty()).then(|| Scalar::from(counts.iter().sum::<u64>()))
    };
    let status = match agent.state {
        State::Done | State::Merged => OK,
        State::Failed | State::Rejected => ERROR,
        _ => UNSET,
    };
    let told: Vec<Value> = events
        .iter()
        .map(|event| {
            json!({
                "timeUnixNano": nanoseconds(event.at.time()),
                "name": format!("git_agent.{}", event.what.kind()),
                "attributes": attributes([("git_agent.by", Some(event.by.as_str().into()))]),
            })
        })
        .collect();
    let short = agent.id.short();
    json!({
        "traceId": agent.id.hex(),
        "spanId": span_id(agent, 0),
        "name": format!("invoke_agent {}", name.as_deref().unwrap_or(&short)),
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(agent.started),
        "endTimeUnixNano": nanoseconds(agent.updated.max(agent.started)),
        "attributes": attributes([
            ("gen_ai.operation.name", Some("invoke_agent".into())),
            ("gen_ai.agent.id", Some(agent.id.to_string().as_str().into())),
            ("gen_ai.agent.name", name.as_deref().map(Scalar::from)),
            ("gen_ai.agent.description", agent.description.as_deref().map(Scalar::from)),
            ("gen_ai.usage.input_tokens", total(|session| session.input_tokens)),
            ("gen_ai.usage.output_tokens", total(|session| session.output_tokens)),
            ("git_agent.cost_micro_usd", total(|session| session.cost_micro_usd)),
            ("git_agent.state", Some(agent.state.as_str().into())),
            ("git_agent.role", agent.role.as_deref().map(Scalar::from)),
            ("git_agent.branch", agent.branch.as_deref().map(Scalar::from)),
        ]),
        "events": told,
        "status": { "code": status },
    })
}

fn of_run(agent: &Agent, run: &Run) -> Value {
    let end = run.end.as_ref();
    let session = end.map(|(exited, _)| &exited.session);
    let count = |count: fn(&HostSession) -> Option<u64>| session.and_then(count).map(Scalar::from);
    let status = match end {
        Some((exited, _)) if exited.code == 0 => OK,
        Some(_) => ERROR,
        None => UNSET,
    };
    // A run that has not ended has lasted until now, as far as its agent's row knows.
    let ended = end.map_or(agent.updated, |(_, time)| *time);
    json!({
        "traceId": agent.id.hex(),
        "spanId": span_id(agent, run.number()),
        "parentSpanId": span_id(agent, 0),
        "name": format!("run {}", run.number()),
        "kind": INTERNAL,
        "startTimeUnixNano": nanoseconds(run.began),
        "endTimeUnixNano": nanoseconds(ended.max(run.began)),
        "attributes": attributes([
            ("gen_ai.request.model", run.started.model.as_deref().map(Scalar::from)),
            ("gen_ai.conversation.id", session.and_then(|session| session.id.as_deref()).map(Scalar::from)),
            ("gen_ai.usage.input_tokens", count(|session| session.input_tokens)),
            ("gen_ai.usage.output_tokens", count(|session| session.output_tokens)),
            ("git_agent.cost_micro_usd", count(|session| session.cost_micro_usd)),
            ("process.exit.code", end.map(|(exited, _)| Scalar::from(u64::from(exited.code)))),
        ]),
        "status": { "code": status },
    })
}

/// The value of an attribute.
struct Scalar(Value);

impl From<&str> for Scalar {
    fn from(text: &str) -> Scalar {
        Scalar(json!({ "stringValue": text }))
    }
}

impl From<u64> for Scalar {
    // Numbers of 64 bits are texts in JSON.
    fn from(number: u64) -> Scalar {
        Scalar(json!({ "intValue": number.to_string() }))
    }
}

/// Those attributes that have a value.
fn attributes<const N: usize>(pairs: [(&str, Option<Scalar>); N]) -> Vec<Value> {
    let given = pairs.into_iter().filter_map(|(key, value)| Some((key, value?.0)));
    let pair = |(key, value): (&str, Value)| {
        let pair = [("key".to_owned(), key.into()), ("value".to_owned(), value)];
        Value::Object(Map::from_iter(pair))
    };
    given.map(pair).collect()
}

/// The id of the span for a run; 0 for that of the agent.
fn span_id(agent: &Agent, run: u32) -> String {
    // Ids are made from what they stand for, so that a second export replaces the first and adds
    // nothing.
    let digest = Sha256::new().chain_update(agent.id.hex());
    let digest = digest.chain_update(run.to_be_bytes()).finalize();
    short_hex(&digest, 8)
}

fn nanoseconds(time: DateTime<Utc>) -> String {
    time.timestamp_nanos_opt()
        .unwrap_or_default()
        // The format's times are whole numbers without a sign.
        .max(0)
        .to_string()
}

// An agent's work as a trace record of Agent Trace (0.1), which says which lines of which files a contributor wrote.

/// The version as the format's schema has it: major and minor.
const VERSION: &str = "0.1";

/// Lines of one file, counted from 1, both ends included.
pub type Lines = (Vec<u8>, Vec<(u32, u32)>);

/// The record of an agent for the commit `revision`, whose lines these are and were written with that model; `time` is
/// RFC 3339.
pub fn record(
    agent: &Agent,
    revision: Oid,
    model: Option<&str>,
    time: &str,
    files: &[Lines],
) -> Value {
    let mut contributor = json!({ "type": "ai" });
    // The schema allows no null there.
    if let Some(model) = model {
        put(&mut contributor, "model_id", model);
    }
    let files: Vec<Value> = files
        .iter()
        .map(|(path, ranges)| {
            let ranges: Vec<Value> = ranges
                .iter()
                .map(|(first, last)| json!({ "start_line": first, "end_line": last }))
                .collect();
            json!({
                // The format has no other form for a path that is not UTF-8.
                "path": String::from_utf8_lossy(path),
                "conversations": [{ "contributor": contributor, "ranges": ranges }],
            })
        })
        .collect();
    let session = agent.run.as_ref().and_then(|run| run.end.as_ref());
    let session = session.and_then(|(exited, _)| exited.session.id.as_deref());
    let mut about = json!({ "agent_id": agent.id.to_string(), "state": agent.state.as_str() });
    if let Some(session) = session {
        put(&mut about, "session_id", session);
    }
    json!({
        "version": VERSION,
        "id": id(agent, revision).to_string(),
        "timestamp": time,
        "vcs": { "type": "git", "revision": revision.to_hex() },
        "tool": { "name": "git-agent", "version": env!("CARGO_PKG_VERSION") },
        "files": files,
        "metadata": { "git-agent": about },
    })
}

/// The same for the same agent and commit, each time and everywhere.
fn id(agent: &Agent, revision: Oid) -> Uuid {
    let digest = Sha256::new().chain_update("agent-trace\0");
    let digest = digest.chain_update(agent.id.to_string());
    let digest = digest.chain_update(revision.to_hex()).finalize();
    // Version 8 is for ids whose bytes are the program's own.
    Uuid::new_v8(first_half(digest))
}
