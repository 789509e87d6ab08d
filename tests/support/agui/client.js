// Runs an agent with AG-UI's own client, as orders on the standard input say, each a line of JSON:
//   {"url", "runId", "say"?: TEXT, "resume"?: [ENTRY]}
// and prints for each what the front end has then, or {"error"}.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

// The client rejects a second promise, which nobody has, when a connection is cut.
process.on("unhandledRejection", () => {});
const agent = new HttpAgent({ url: "http://unknown", threadId: "s" });

for await (const line of createInterface({ input: process.stdin })) {
  const { url, runId, say, resume } = JSON.parse(line);
  agent.url = url;
  if (say) agent.addMessage({ id: `said-${runId}`, role: "user", content: say });
  const types = [];
  const seen = {
    onEvent: ({ event }) => {
      types.push(event.type);
      if (event.type === "TEXT_MESSAGE_CONTENT") console.log(JSON.stringify({ text: event.delta }));
    },
  };
  let error;
  try {
    await agent.runAgent({ runId, resume }, seen);
  } catch (raised) {
    error = String(raised);
  }
  const { messages, state, pendingInterrupts } = agent;
  console.log(JSON.stringify({ types, messages, state, pendingInterrupts, error }));
}
