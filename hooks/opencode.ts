// git-agent opencode plugin, version 1
//
// Written by `git agent init --host opencode`, which replaces this file as a whole. It asks
// `git-agent hook pre-tool` before every tool call; anything but a plain yes stops the call.
import { spawnSync } from "node:child_process";

export const GitAgent = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const call = { tool_name: input.tool, tool_input: output.args, cwd: directory };
    const answer = spawnSync("git-agent", ["hook", "pre-tool"], {
      cwd: directory,
      input: JSON.stringify(call),
      encoding: "utf8",
      timeout: 10_000,
    });
    if (answer.error) {
      throw new Error(`git-agent could not be asked, so the call is refused: ${answer.error.message}`);
    }
    if (answer.status !== 0) {
      throw new Error(answer.stderr.trim() || "git-agent refused the call and gave no reason");
    }
  },
});
