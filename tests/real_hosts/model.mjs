// A model server for tests: it listens on the loopback interface, reads what an agent host sends, and asks a script what
// to answer. It speaks Anthropic's messages, OpenAI's responses and chat completions, and Gemini's generateContent, each
// streamed or whole. It keeps no state: the conversation in a request says which turn is next.
import http from "node:http";

/// Starts a server. `play` gets `{ offered, entries, text }` (the tools offered; the conversation, each entry with its `text` and
/// whether it is `from` the "model" or the "user"; the whole request as text) and returns `{ say }` or
/// `{ call: { name, input } }`; `call.freeform` marks a tool whose input is a text. Returns the base URL and a function that ends
/// the server.
export async function startModel(play) {
  const server = http.createServer(async (request, response) => {
    const path = request.url.split("?")[0];
    const text = await textOf(request);
    const dialect = dialects.find((dialect) => dialect.path.test(path));
    if (!dialect) return json(response, sideAnswer(path));
    const body = JSON.parse(text || "{}");
    const { offered, entries } = dialect.read(body);
    const answer = await play({ offered, entries, text });
    const streamed = body.stream || path.includes("stream");
    const events = dialect.write(answer, body);
    if (!streamed) return json(response, events.whole);
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events.stream) {
      if (event.type && !dialect.unnamed) response.write(`event: ${event.type}\n`);
      response.write(`data: ${JSON.stringify(event)}\n\n`);
    }
    response.end(dialect.end ?? "");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

/// All text in a message's content, whatever its shape.
function flat(value) {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(flat).join("\n");
  if (value && typeof value === "object") return Object.values(value).map(flat).join("\n");
  return "";
}

let counter = 0;
const fresh = (prefix) => `${prefix}_${++counter}`;

const messages = {
  path: /\/messages$/,
  read(body) {
    const entries = body.messages.map((message) => ({
      from: message.role === "assistant" ? "model" : "user",
      text: flat(message.content),
    }));
    return { offered: (body.tools ?? []).map((tool) => tool.name), entries };
  },
  write({ say, call }, body) {
    const block = call
      ? { type: "tool_use", id: fresh("toolu"), name: call.name, input: call.input }
      : { type: "text", text: say };
    const head = {
      id: fresh("msg"), type: "message", role: "assistant", model: body.model, content: [],
      stop_reason: null, stop_sequence: null, usage: { input_tokens: 10, output_tokens: 1 },
    };
    const stop_reason = call ? "tool_use" : "end_turn";
    const [empty, delta] = call
      ? [{ ...block, input: {} }, { type: "input_json_delta", partial_json: JSON.stringify(call.input) }]
      : [{ type: "text", text: "" }, { type: "text_delta", text: say }];
    return {
      whole: { ...head, content: [block], stop_reason },
      stream: [
        { type: "message_start", message: head },
        { type: "content_block_start", index: 0, content_block: empty },
        { type: "content_block_delta", index: 0, delta },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } },
        { type: "message_stop" },
      ],
    };
  },
};

const responses = {
  path: /\/responses$/,
  read(body) {
    const items = typeof body.input === "string" ? [{ role: "user", content: body.input }] : body.input ?? [];
    const entries = items.map((item) => {
      const byModel = item.role === "assistant" || /_call$/.test(item.type ?? "");
      return { from: byModel ? "model" : "user", text: flat(item.content ?? item.output ?? item.tools ?? "") };
    });
    return { offered: (body.tools ?? []).map((tool) => tool.name ?? tool.type), entries };
  },
  write({ say, call }, body) {
    const content = [{ type: "output_text", text: say, annotations: [] }];
    let item = { type: "message", id: fresh("msg"), role: "assistant", status: "completed", content };
    if (call?.freeform) {
      item = { type: "custom_tool_call", id: fresh("ctc"), call_id: fresh("call"), name: call.name, input: call.input, status: "completed" };
    } else if (call) {
      const args = JSON.stringify(call.input);
      item = { type: "function_call", id: fresh("fc"), call_id: fresh("call"), name: call.name, arguments: args, status: "completed" };
      if (call.namespace) item.namespace = call.namespace;
      // It is asked for tools that it offers on request.
      if (call.search) item = { type: "tool_search_call", id: fresh("tsc"), call_id: fresh("call"), execution: "client", arguments: call.search, status: "completed" };
    }
    const whole = {
      id: fresh("resp"), object: "response", created_at: 0, status: "completed", model: body.model, output: [item],
      usage: {
        input_tokens: 10, input_tokens_details: { cached_tokens: 0 }, output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 15,
      },
    };
    const at = { item_id: item.id, output_index: 0 };
    const part = { type: "output_text", text: "", annotations: [] };
    const inner = call
      ? [{ type: "response.function_call_arguments.done", ...at, arguments: item.arguments }]
      : [
          { type: "response.content_part.added", ...at, content_index: 0, part },
          { type: "response.output_text.delta", ...at, content_index: 0, delta: say },
        ];
    const stream = [
      { type: "response.created", response: { ...whole, status: "in_progress", output: [] } },
      { type: "response.output_item.added", output_index: 0, item },
      ...(call?.freeform ? [] : inner),
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: whole },
    ];
    stream.forEach((event, number) => (event.sequence_number = number));
    return { whole, stream };
  },
};

const chat = {
  path: /\/chat\/completions$/,
  unnamed: true,
  end: "data: [DONE]\n\n",
  read(body) {
    const entries = body.messages.map((message) => ({
      from: message.role === "assistant" ? "model" : "user",
      text: flat(message.content),
    }));
    return { offered: (body.tools ?? []).map((tool) => tool.function?.name), entries };
  },
  write({ say, call }, body) {
    const message = { role: "assistant", content: say ?? null };
    if (call) {
      const made = { name: call.name, arguments: JSON.stringify(call.input) };
      message.tool_calls = [{ index: 0, id: fresh("call"), type: "function", function: made }];
    }
    const finish_reason = call ? "tool_calls" : "stop";
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const base = { id: fresh("chatcmpl"), created: 0, model: body.model };
    const chunk = { ...base, object: "chat.completion.chunk" };
    return {
      whole: { ...base, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage },
      stream: [
        { ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] },
        { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
        { ...chunk, choices: [], usage },
      ],
    };
  },
};

const gemini = {
  path: /enerateContent$/,
  unnamed: true,
  read(body) {
    const entries = (body.contents ?? []).map((content) => ({
      from: content.role === "model" ? "model" : "user",
      text: flat(content.parts),
    }));
    const declared = (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []);
    return { offered: declared.map((tool) => tool.name), entries };
  },
  write({ say, call }) {
    const part = call ? { functionCall: { id: fresh("fc"), name: call.name, args: call.input } } : { text: say };
    const whole = {
      candidates: [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
      responseId: fresh("r"),
    };
    return { whole, stream: [whole] };
  },
};

const dialects = [messages, responses, chat, gemini];

/// What is asked besides: how many tokens a text has, which models there are, and statistics.
function sideAnswer(path) {
  if (path.endsWith("/count_tokens")) return { input_tokens: 100 };
  if (path.endsWith(":countTokens")) return { totalTokens: 100 };
  if (path.includes("/models")) return { object: "list", data: [{ id: "scripted", object: "model" }], models: [] };
  return {};
}

async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

function json(response, value) {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
}
