// Two plays: a session of a host in the main worktree gives orders over MCP (it lists agents, makes one, has its work judged), and a session
// that goes on and on.
const AGENT = "greeting";

/// A play for the model server. `findings` collects what the model was told of each call's result.
export function orders(host, place, findings) {
  const scope = ["src/**"];
  const steps = [
    // Some hosts offer such tools on request only.
    ...(host.mcp.find ? [{ call: host.mcp.find, then: (told) => ({ "the model finds the tools": ["list", "spawn", "verify"].every((tool) => told.includes(tool)) }) }] : []),
    { tool: "list", input: {}, then: (told) => ({ "the model is told that there is no agent": told.includes("git-agent.list/") && !told.includes(AGENT) }) },
    {
      tool: "spawn", input: { message: ["Add a greeting."], name: AGENT, scope },
      then: (told) => ({ "the model is told of the agent that it made": told.includes("git-agent.spawn/") && told.includes("worktree_abspath") }),
    },
    { tool: "list", input: {}, then: (told) => ({ "the agent is in the list": told.includes(AGENT) }) },
    {
      tool: "verify", input: { agent: AGENT },
      then: (told) => ({ "the model is told the verdict": told.includes("git-agent.verify/") && told.includes("verdict") }),
    },
    { tool: "show", input: { agent: "nothing-like-it" }, then: (told) => ({ "an error is told with its code": told.includes("agent-unknown") }) },
  ];
  return ({ offered, entries }) => {
    if (offered.length === 0) return { say: "A title" };
    const turns = entries.filter((entry) => entry.from === "model").length;
    const last = entries.findLastIndex((entry) => entry.from === "model");
    const told = entries.slice(last + 1).map((entry) => entry.text).join("\n");
    place.transcript.push(`told: ${told}`);
    const before = steps[turns - 1];
    for (const [check, holds] of Object.entries(before?.then(told) ?? {})) findings.push({ check, holds, detail: told.slice(-800) });
    const step = steps[turns];
    if (!step) return { say: "The orders are given." };
    return { call: step.call ?? host.mcp.call(step.tool, step.input) };
  };
}

/// A play in which the model runs one command after another, `count` of them at most, and thinks for a while before each.
export const busy = (count, thinks = 0) => (host, place) => async ({ offered, entries }) => {
  if (offered.length === 0) return { say: "A title" };
  place.asked = (place.asked ?? 0) + 1;
  await new Promise((done) => setTimeout(done, thinks));
  const turns = entries.filter((entry) => entry.from === "model").length;
  return turns < count ? { call: host.shell(`true ${turns}`) } : { say: "Enough." };
};
