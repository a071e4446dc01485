// The agent hosts of this harness: where each comes from, how it is pointed at the model server, and how its tools are called.
// A host that is new to the harness needs one entry here. `hears` says at which moments the host can tell its model what our
// hooks say; `unfenced` are the options by which a user allows shell commands where our sandbox is off.
import fs from "node:fs";
import path from "node:path";

const named = (name, keys) => (...values) => ({ name, input: Object.fromEntries(keys.map((key, n) => [key, values[n]])) });
const shell = (name) => (command) => ({ name, input: { command, description: "run a command" } });

export const HOSTS = {
  claude: {
    package: "@anthropic-ai/claude-code",
    version: "2.1.332",
    // Its installer would link this file; install scripts are not run.
    program: /^node_modules\/@anthropic-ai\/claude-code-[^/]+\/claude$/,
    write: named("Write", ["file_path", "content"]),
    shell: shell("Bash"),
    unfenced: ["--allowedTools", "Bash"],
    // A session of its own that calls agents.
    session: (prompt) => ["-p", prompt, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
    // It can write the answer of an agent that may change no files.
    answers: true,
    leads: true,
    alone: (prompt) => ["-p", prompt, "--permission-mode", "acceptEdits", "--add-dir", ".."],
    agent: (invocation) => ({ name: "Agent", input: { ...invocation, run_in_background: false } }),
    mcp: {
      add: ["--"],
      session: (prompt) => ["-p", prompt, "--allowedTools", "mcp__git-agent"],
      find: { name: "ToolSearch", input: { query: ["list", "spawn", "verify", "show"].map((tool) => `mcp__git-agent__${tool}`).join(",").replace(/^/, "select:"), max_results: 10 } },
      call: (tool, input) => ({ name: `mcp__git-agent__${tool}`, input }),
    },
    cost: { usd: "0.0005" },
    hears: ["own tool", "shell", "end"],
    point: (url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: "none",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
    }),
  },
  codex: {
    package: "@openai/codex",
    version: "0.169.0",
    write: (file, text) => {
      const lines = text.trimEnd().split("\n").map((line) => `+${line}`);
      const input = ["*** Begin Patch", `*** Add File: ${file}`, ...lines, "*** End Patch", ""].join("\n");
      return { name: "apply_patch", input, freeform: true };
    },
    shell: (cmd) => ({ name: "exec_command", input: { cmd } }),
    mcp: {
      add: ["--"],
      session: (prompt) => ["exec", "--dangerously-bypass-approvals-and-sandbox", prompt],
      find: { search: { query: "git-agent list spawn verify show agents", limit: 12 } },
      call: (tool, input) => ({ name: tool, namespace: "mcp__git_agent", input }),
    },
    hears: ["own tool", "shell", "end"],
    point: (url, home) => {
      const provider = { name: "scripted", base_url: `${url}/v1`, env_key: "OPENAI_API_KEY", wire_api: "responses" };
      const lines = Object.entries(provider).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
      const head = ['model = "gpt-5.5"', 'model_provider = "scripted"', "[model_providers.scripted]"];
      put(home, ".codex/config.toml", [...head, ...lines, "request_max_retries = 1", ""].join("\n"));
      return { OPENAI_API_KEY: "none" };
    },
  },
  gemini: {
    package: "@google/gemini-cli",
    version: "0.61.0",
    write: named("write_file", ["file_path", "content"]),
    shell: shell("run_shell_command"),
    unfenced: ["--allowed-tools", "run_shell_command"],
    mcp: {
      add: [],
      trust: (home, root) => put(home, ".gemini/trustedFolders.json", JSON.stringify({ [root]: "TRUST_FOLDER" })),
      session: (prompt) => ["-p", prompt, "--approval-mode", "yolo"],
      call: (tool, input) => ({ name: `mcp_git-agent_${tool}`, input }),
    },
    alone: (prompt) => ["-p", prompt, "--skip-trust", "--approval-mode", "auto_edit", "--include-directories", ".."],
    hears: ["own tool", "shell", "end"],
    point: (url, home) => {
      // Without a model of its own it asks a small one first which model to take.
      const settings = {
        security: { auth: { selectedType: "gemini-api-key" } },
        model: { name: "gemini-2.5-pro" },
        general: { enableAutoUpdate: false },
        telemetry: { enabled: false },
        privacy: { usageStatisticsEnabled: false },
      };
      put(home, ".gemini/settings.json", JSON.stringify(settings));
      return { GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "none" };
    },
  },
  qwen: {
    package: "@qwen-code/qwen-code",
    version: "0.24.4",
    write: named("write_file", ["file_path", "content"]),
    shell: shell("run_shell_command"),
    unfenced: ["--allowed-tools", "run_shell_command"],
    cost: { usd: "0.05", price: "1000/1000" },
    alone: (prompt) => ["-p", prompt, "--approval-mode", "auto-edit", "--include-directories", ".."],
    hears: ["own tool", "shell", "end"],
    point: (url, home) => {
      const settings = {
        security: { auth: { selectedType: "openai" } },
        general: { enableAutoUpdate: false },
        telemetry: { enabled: false },
        privacy: { usageStatisticsEnabled: false },
      };
      put(home, ".qwen/settings.json", JSON.stringify(settings));
      return { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "none", OPENAI_MODEL: "gpt-4o" };
    },
  },
  opencode: {
    package: "opencode-ai",
    version: "1.18.33",
    program: /^node_modules\/opencode-[^/]+\/bin\/opencode$/,
    write: named("write", ["filePath", "content"]),
    shell: shell("bash"),
    cost: { usd: "0.05", price: "1000/1000" },
    alone: (prompt) => ["run", prompt],
    hears: ["own tool", "shell"],
    point: (url, home) => {
      const model = { name: "scripted", tool_call: true, limit: { context: 100000, output: 4000 } };
      const provider = { npm: "@ai-sdk/openai-compatible", options: { baseURL: `${url}/v1`, apiKey: "none" }, models: { model } };
      const settings = {
        // Without its own snapshots it starts a third fewer gits.
        model: "scripted/model", autoupdate: false, share: "disabled", snapshot: false, provider: { scripted: provider },
        permission: { edit: "allow", bash: "allow", external_directory: "allow" },
      };
      put(home, ".config/opencode/opencode.json", JSON.stringify(settings));
      // Its list of models comes from the network.
      return { OPENCODE_DISABLE_MODELS_FETCH: "1" };
    },
  },
  copilot: {
    package: "@github/copilot",
    version: "1.0.102",
    write: named("create", ["path", "file_text"]),
    shell: shell("bash"),
    unfenced: ["--allow-all-tools"],
    alone: (prompt) => ["-p", prompt, "--allow-all-tools", "--allow-all-paths"],
    hears: ["own tool", "shell", "end"],
    point: (url) => ({
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: "none",
      COPILOT_MODEL: "claude-sonnet-4.5",
      COPILOT_OFFLINE: "true",
    }),
  },
  aider: {
    package: "aider-chat",
    version: "0.86.2",
    python: true,
    // It asks its model once, and ends.
    tellsCost: true,
    // It has no tools: its answer is a text with blocks that it applies, and no hooks either.
    hears: [],
    point: (url) => ({
      OPENAI_API_BASE: `${url}/v1`,
      OPENAI_API_KEY: "none",
      AIDER_MODEL: "openai/gpt-4o",
      AIDER_EDIT_FORMAT: "diff",
      AIDER_SHOW_MODEL_WARNINGS: "false",
      AIDER_ANALYTICS: "false",
    }),
  },
};

/// Variables of the caller that would point a host elsewhere.
export const FOREIGN = new RegExp(
  "^(CLAUDE|ANTHROPIC_|CODEX_|OPENAI_|GEMINI_|GOOGLE_|QWEN_|COPILOT_|GITHUB_TOKEN$|GH_TOKEN$|OPENCODE|AIDER_|GIT_AGENT_|XDG_.*_HOME$|GIT_)",
);

function put(home, name, text) {
  const file = path.join(home, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}
