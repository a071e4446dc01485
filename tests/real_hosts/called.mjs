// A session of a host in the main worktree calls its agent tool for agents of ours: with the call that `show --invocation` prints,
// which must work as it is.
import fs from "node:fs";
import path from "node:path";

const START = "Call the agent that is waiting.";

/// What the host is asked to do; nothing of it is in the conversation of the agent that it calls.
export const PROMPT = START;

/// A play for the model server: the session makes the call, the agent works, and both end. `findings` collects what holds.
export function called(host, place, findings) {
  const steps = work(host, place);
  const done = new Set();
  return ({ offered, entries }) => {
    if (offered.length === 0) return { say: "A title" };
    const turns = entries.filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    const isSession = entries.some((entry) => entry.from === "user" && entry.text.includes(START));
    place.transcript.push(`${isSession ? "session" : "agent"} told: ${told}`);
    if (isSession) {
      if (turns === 0) return { call: host.agent(place.invocation) };
      findings.push({ check: "the session hears what the agent answered", holds: told.includes("The greeting is there."), detail: told.slice(-800) });
      return { say: "The agent is done." };
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
