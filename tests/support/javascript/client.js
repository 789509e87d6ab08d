// Starts an agent that asks for an approval, watches it, approves, and prints what came of it:
//   node client.js ADDRESS TASK_QUEUE WORKFLOW_ID
import { Client, Connection } from "@temporalio/client";

const [address, taskQueue, workflowId] = process.argv.slice(2);
const connection = await Connection.connect({ address });
const client = new Client({ connection });

const request = { app: "desk", user: "alice", session: workflowId, message: "Refund me." };
const handle = await client.workflow.start("Invocation", { taskQueue, workflowId, args: [request] });

let pending = [];
while (pending.length === 0) {
  await new Promise((resolve) => setTimeout(resolve, 100));
  pending = await handle.query("pending");
}
const { status } = await handle.describe();

const answer = { callId: pending[0].callId, confirmed: true, answerId: "a-1" };
const accepted = await handle.executeUpdate("answer", { args: [answer] });
const result = await handle.result();
const answers = await handle.query("answers");

const events = [];
for (let after = 0, complete = false; !complete; ) {
  const about = { app: "desk", user: "alice", session: workflowId, invocationId: result.invocationId, after, wait: 5 };
  const page = await client.workflow.execute("SessionEvents", { taskQueue, workflowId: `${workflowId}-events-${after}`, args: [about] });
  events.push(...page.events.map(({ event }) => event));
  after = page.next;
  complete = page.complete;
  if (page.events.length === 0 && !complete) await new Promise((resolve) => setTimeout(resolve, 1000));
}
console.log(JSON.stringify({ pending, accepted, status: status.name, answers, result, events }));
await connection.close();
