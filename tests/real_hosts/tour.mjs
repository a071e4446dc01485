// What the model does in every host, and what has to hold after each of its steps.
import fs from "node:fs";
import path from "node:path";

/// The task of the agent: it may change `src` alone.
export const TASK = `role = "edit-local"
task = """
Add a greeting module to the source tree and keep everything else as it is.
"""
[scope]
whitelist = ["src/**"]
[checks]
commands = ["test -f src/greeting.rs"]
`;

/// The task of an agent that may change nothing.
export const READING = `role = "read-only"
task = """
Read the source tree and report what is missing in it.
"""
[scope]
whitelist = ["src/**"]
`;

/// What that agent answers.
export const ANSWER = "# Report\n\nA greeting is missing.\n";

/// A play for that agent: it writes its answer to the file that its prompt names, and tries another one first.
export function answers(host, place, findings) {
  return ({ offered, entries, text }) => {
    if (offered.length === 0) return { say: "Report" };
    const turns = entries.filter((entry) => entry.from === "model").length;
    if (turns === 0) return { call: host.write(path.join(place.root, "src/other.rs"), "out of scope\n") };
    if (turns === 1) {
      findings.push({ check: "its own tool is denied where nothing may change", holds: !fs.existsSync(path.join(place.root, "src/other.rs")), detail: "" });
      const file = text.match(/Write your complete output to: `([^`]+)`/)?.[1] ?? path.join(place.root, "unknown");
      return { call: host.write(path.resolve(place.root, file), ANSWER) };
    }
    return { say: entries.at(-1).text.slice(-400) };
  };
}

/// A play for the model server. `findings` collects `{ check, holds, detail }`; `place` says where things are and whether our
/// fence is on.
export function tour(host, place, findings) {
  const steps = host.write ? withTools(host, place) : withText(place);
  const done = new Set();
  return ({ offered, entries, text }) => {
    // Another run goes on with the session: what was said before has to be there.
    if (text.includes("this session goes on in")) {
      place.wentOn ??= entries.some((entry) => entry.text.includes("Add a greeting module")) && entries.some((entry) => entry.from === "model");
      return { say: "It is done already." };
    }
    // Hosts ask for titles and summaries besides; no tool is offered then.
    if (host.write && offered.length === 0) return { say: "Greeting" };
    // Aider shows its model examples of answers before the task.
    const start = entries.findIndex((entry) => entry.text.includes("Add a greeting module"));
    const turns = entries.slice(start).filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    place.worktree ??= text.match(new RegExp(`${place.root}/\\.claude/worktrees/agent-[0-9a-f]{8}`))?.[0];
    const before = steps[turns - 1];
    if (before && !done.has(before)) {
      done.add(before);
      place.transcript.push(`told: ${told}`);
      for (const [check, holds] of Object.entries(before.then?.(told) ?? {})) {
        findings.push({ check, holds: Boolean(holds), detail: told.slice(-800) });
      }
    }
    const answer = steps[turns]?.does() ?? { say: "There is nothing left to do." };
    place.transcript.push(`model: ${JSON.stringify(answer)}`);
    return answer.name ? { call: answer } : answer;
  };
}

function withTools(host, place) {
  const inside = (name) => path.join(place.worktree, name);
  const has = (file) => fs.existsSync(file);
  const hears = (moment) => host.hears.includes(moment);
  const refuses = (told, name) => told.includes(name) && /whitelist|outside of/.test(told);
  let changed;
  const steps = [
    {
      does: () => host.write(inside("src/greeting.rs"), "pub fn greeting() {}\n"),
      then: () => ({ "its own tool writes in scope": has(inside("src/greeting.rs")) }),
    },
    {
      does: () => {
        changed = fs.statSync(inside("docs")).mtimeNs;
        return host.write(inside("docs/tool.md"), "out of scope\n");
      },
      then: (told) => ({
        "its own tool is denied out of scope, before it happens":
          !has(inside("docs/tool.md")) && fs.statSync(inside("docs")).mtimeNs === changed,
        "the model is told why its tool was denied": refuses(told, "docs/tool.md"),
      }),
    },
    {
      does: () => host.write(path.join(place.root, "src/main.rs.new"), "in the main worktree\n"),
      then: () => ({ "its own tool is denied in the main worktree": !has(path.join(place.root, "src/main.rs.new")) }),
    },
    {
      does: () => host.shell(`echo sneaky > ${inside("docs/shell.md")}; echo written; false`),
      then: (told) => ({
        "its shell runs": told.includes("written") && has(inside("docs/shell.md")),
        "the model is told what its shell wrote out of scope": told.includes("docs/shell.md"),
      }),
    },
    {
      does: () => host.shell("git add -A && git commit -qm everything; echo over"),
      then: (told) => ({ "the model is told of a commit out of scope": told.includes("docs/shell.md") }),
    },
    {
      // Whatever the last step committed is taken back.
      does: () => host.shell(`git log -1 --format=%H --grep='^agent: spawn' | xargs git reset -q; rm ${inside("docs/shell.md")}; git-agent check --worktree; echo "check: $?"; command -v git-agent | xargs readlink -f`),
      then: (told) => ({ "our program is on its shell's PATH": told.includes("check: 0") && told.includes(place.program) }),
    },
    {
      only: hears("end"),
      does: () => ({ say: "Done: the greeting is there." }),
      then: (told) => ({ "it is sent back at the end with what its bundle lacks": told.includes("plan.md") }),
    },
    { does: () => host.shell(bundle(inside(".agent"))) },
    {
      does: () => host.shell(`git-agent verify; echo "verify: $?"; git-agent done --summary "It is done."; echo "done: $?"`),
      then: (told) => ({
        "it can verify its own work, and say that it is done": told.includes("verify: 0") && told.includes("done: 0"),
      }),
    },
    { does: () => ({ say: "Done: the greeting and the six files are there." }) },
  ];
  if (place.fenced) {
    const outside = [path.join(place.root, "src/outside.rs"), path.join(place.home, "outside")];
    steps.splice(4, 0, {
      does: () => host.shell(outside.map((file) => `echo x > ${file}`).join("; ")),
      then: () => ({ "its shell cannot write outside of the worktree": !outside.some(has) }),
    });
  }
  return steps.filter((step) => step.only ?? true);
}

function withText(place) {
  const block = (file, text) => `${file}\n\`\`\`\n<<<<<<< SEARCH\n=======\n${text}>>>>>>> REPLACE\n\`\`\`\n`;
  return [
    {
      does: () => ({ say: `Here it is.\n\n${block("src/greeting.rs", "pub fn greeting() {}\n")}\n${block("docs/tool.md", "no\n")}` }),
    },
  ];
}

/// A command that writes the files of the bundle that spawn left to the agent.
function bundle(directory) {
  const texts = { "plan.md": "Add a module.", "chatlog.md": "Did it.", "handoffs.md": "None.", "review.md": "It is right." };
  const lines = Object.entries(texts).map(([name, text]) => `echo '${text}' > ${directory}/${name}`);
  return [...lines, `echo '{"status": "done"}' > ${directory}/progress.json`].join("; ");
}
