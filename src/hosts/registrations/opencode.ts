// git-agent opencode plugin, version 2
//
// Written by `git agent init --host opencode`, which replaces this file as a whole. It asks
// `git-agent hook pre-tool` before every tool call; anything but a plain yes stops the call. After a call it
// adds to the tool's output what `git-agent hook post-tool` says of the work. Other hooks hear when a session
// is given a prompt, waits for a permission, and is idle.
import { spawnSync } from "node:child_process";

export const GitAgent = async ({ directory }) => {
  const ask = (hook, call) =>
    spawnSync("git-agent", ["hook", hook], {
      cwd: directory,
      input: JSON.stringify({ ...call, cwd: directory }),
      encoding: "utf8",
      timeout: 60_000,
    });
  const phases = { "permission.asked": "notification", "permission.updated": "notification", "session.idle": "session-end" };
  return {
    event: async ({ event }) => {
      const hook = phases[event.type];
      if (hook) {
        ask(hook, { session_id: event.properties.sessionID });
      }
    },
    "chat.message": async (input) => {
      ask("prompt", { session_id: input.sessionID });
    },
    "tool.execute.before": async (input, output) => {
      const answer = ask("pre-tool", { session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool, tool_input: output.args });
      if (answer.error) {
        throw new Error(`git-agent could not be asked, so the call is refused: ${answer.error.message}`);
      }
      if (answer.status !== 0) {
        throw new Error(answer.stderr.trim() || "git-agent refused the call and gave no reason");
      }
    },
    "tool.execute.after": async (input, output) => {
      const call = {
        hook_event_name: "tool.execute.after",
        session_id: input.sessionID,
        tool_use_id: input.callID,
        tool_name: input.tool,
        tool_input: input.args ?? {},
      };
      const answer = ask("post-tool", call);
      if (answer.status === 2) {
        output.output = `${output.output ?? ""}\n${answer.stderr.trim()}\n`;
      }
    },
  };
};
