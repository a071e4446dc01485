// A session of a host in the main worktree calls its agent tool for agents of ours: with the call that `show --invocation` prints,
// which must work as it is.
import fs from "node:fs";
import path from "node:path";

const START = "Call the agent that is waiting.";

/// What the host is asked to do; nothing of it is in the conversation of the agent that it calls.
export const PROMPT = START;

const LOOK = "Look at the source tree and tell what is there.";

/// A play for the model server: the session makes the call, the agent works, and both end. `findings` collects what holds.
export const calls = (host, place, findings) => play(host, place, findings, work(host, place), [() => place.invocation]);

/// The same where the host asks us for worktrees: the agent begins in its own and is told its task there, and another call
/// that names no agent of ours gets one as well, which goes again because it changes nothing.
export function isolatedCalls(host, place, findings) {
  const begun = {
    does: () => host.shell("pwd"),
    then: (told) => ({ "the called agent begins in its worktree": told.includes(place.worktree) }),
  };
  const look = { description: "Look around", prompt: LOOK, subagent_type: "general-purpose", isolation: "worktree" };
  return play(host, place, findings, [begun, ...work(host, place)], [() => place.invocation, () => look]);
}

function play(host, place, findings, steps, asked) {
  const done = new Set();
  return ({ offered, entries }) => {
    if (offered.length === 0) return { say: "A title" };
    const turns = entries.filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    const isSession = entries.some((entry) => entry.from === "user" && entry.text.includes(START));
    place.transcript.push(`${isSession ? "session" : "agent"} told: ${told}`);
    if (isSession) {
      const heard = [null, "The greeting is there.", "There is a source tree."][turns];
      if (heard) findings.push({ check: `the session hears: ${heard}`, holds: told.includes(heard), detail: told.slice(-800) });
      return turns < asked.length ? { call: host.agent(asked[turns]()) } : { say: "The agents are done." };
    }
    const whole = entries.map((entry) => entry.text).join("\n");
    if (whole.includes(LOOK)) {
      if (turns === 0) return { call: host.shell("pwd; git-agent list --format ndjson") };
      const place = /worktrees\/agent-[0-9a-f]{8}\n/.test(told) && told.includes("subagent of the agent host");
      findings.push({ check: "a call without an agent becomes one", holds: place, detail: told.slice(-800) });
      return { say: "There is a source tree." };
    }
    if (turns === 0 && asked.length > 1) {
      findings.push({ check: "the called agent is told its task when it starts", holds: told.includes("takes the place of any other"), detail: told.slice(0, 800) });
    }
    const before = steps[turns - 1];
    if (before && !done.has(before)) {
      done.add(before);
      for (const [check, holds] of Object.entries(before.then?.(told) ?? {})) {
        findings.push({ check, holds: Boolean(holds), detail: told.slice(-800) });
      }
    }
    const answer = steps[turns]?.does() ?? { say: "There is nothing left to do." };
    place.transcript.push(`model: ${JSON.stringify(answer)}`);
    return answer.name ? { call: answer } : answer;
  };
}

function work(host, place) {
  const inside = (name) => path.join(place.worktree, name);
  return [
    {
      does: () => host.write(inside("src/greeting.rs"), "pub fn greeting() {}\n"),
      then: () => ({ "the called agent writes in scope": fs.existsSync(inside("src/greeting.rs")) }),
    },
    {
      does: () => host.write(inside("docs/tool.md"), "out of scope\n"),
      then: (told) => ({
        "its tool is denied out of scope, and it is told why": !fs.existsSync(inside("docs/tool.md")) && /docs\/tool\.md: .*whitelist/.test(told),
      }),
    },
    {
      does: () => host.shell(`cd ${place.worktree} && git-agent check --worktree; echo "check: $?"`),
      then: (told) => ({ "it can check its own work": told.includes("check: 0") }),
    },
    { does: () => ({ say: "The greeting is there." }) },
  ];
}
