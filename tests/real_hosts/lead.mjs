// A host leads three others to one green train, behind the fence: what it asks for is done by the supervisor of its run. And a host that
// is started by hand, below the top of a worktree, where the hooks are those of the user's own settings.
import fs from "node:fs";
import path from "node:path";

const PARTS = ["one", "two", "three"];

/// What the leading agent is asked for; its conversation is known by it.
export const LEAD = "Lead three agents to one green train.";

const part = (text) => text.match(/Write part (\w+)\./)?.[1];

/// A play for the model server: the lead spawns, runs, waits, judges and lands; the others write a file each.
export function leads(host, place, findings) {
  const each = (line) => PARTS.map((name) => line.replaceAll("NAME", name)).join(" && ");
  const steps = [
    host.shell(each("git-agent spawn -m 'Write part NAME.' --name NAME --new src/NAME.txt")),
    host.shell(each(`git-agent run NAME --host ${place.name} --background`)),
    host.shell(`git-agent wait ${PARTS.join(" ")}; echo "waited: $?"`),
    host.shell("git-agent spawn -m 'Write the pages.' --new docs/more.md; echo \"beyond: $?\""),
    host.shell(`git-agent train ${PARTS.join(" ")}; echo "train: $?"; cat src/*.txt; git status --porcelain`),
  ];
  const expected = [null, null, "began", "waited: 0", "beyond: 3", "train: 0"];
  return ({ offered, entries }) => {
    if (offered.length === 0) return { say: "A title" };
    const whole = entries.map((entry) => entry.text).join("\n");
    const turns = entries.filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    place.transcript.push(`told: ${told}`);
    if (whole.includes(LEAD)) {
      const heard = expected[turns];
      if (heard) findings.push({ check: `the lead hears: ${heard}`, holds: told.includes(heard), detail: told.slice(-800) });
      return turns < steps.length ? { call: steps[turns] } : { say: "The train is green." };
    }
    const name = part(whole);
    const work = [host.shell(`echo ${name} > src/${name}.txt && git add src && git commit -qm 'Write part ${name}'`)];
    return turns < work.length ? { call: work[turns] } : { say: "The part is written." };
  };
}

/// A play in which a session writes one file out of the agent's scope, and ends.
export function strays(host, place, findings) {
  const file = () => path.join(place.worktree, "docs/stray.md");
  return ({ offered, entries }) => {
    if (offered.length === 0) return { say: "A title" };
    const turns = entries.filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    if (turns === 0) return { call: host.write(file(), "out of scope\n") };
    if (turns === 1) {
      const holds = !fs.existsSync(file()) && /docs\/stray\.md: .*whitelist/.test(told);
      findings.push({ check: "its tool is denied out of scope, and it is told why", holds, detail: told.slice(-800) });
    }
    return { say: "Done." };
  };
}
