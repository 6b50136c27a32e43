// A foreign client: attaches a provider, composes once, prints what it saw as one JSON line.
// node roundtrip.mjs ADDRESS PROTOS_DIR
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [address, protos] = process.argv.slice(2);
const options = { keepCase: true, longs: Number, enums: String, oneofs: true, includeDirs: [protos] };
const definition = loader.loadSync(
  ["contextbroker/v1/provider_service.proto", "contextbroker/v1/context_service.proto"], options);
const { contextbroker: { v1 } } = grpc.loadPackageDefinition(definition);
const credentials = grpc.credentials.createInsecure();

const frames = [
  { id: "n1", kind: "FRAME_KIND_SNIPPET", title: "first", content: "héllo from node — 文脈", score: 0.9 },
  { id: "n2", kind: "FRAME_KIND_FACT", title: "second", content: "and once more", score: 0.4 },
];

const session = new v1.ProviderService(address, credentials).Attach();
const asked = [];
const attached = new Promise((resolve, reject) => {
  session.on("error", reject);
  session.on("data", (response) => {
    if (response.message === "welcome") resolve(response.welcome);
    if (response.message === "query") {
      asked.push(response.query);
      const { query_id } = response.query;
      session.write({ frame_batch: { query_id, frames } });
      session.write({ lane_end: { query_id, status: "LANE_END_STATUS_COMPLETE" } });
    }
  });
});
session.write({ hello: { provider_id: "node", instance_id: "node-1", version: process.version } });
const welcome = await attached;

const client = new v1.ContextService(address, credentials);
const messages = [];
await new Promise((resolve, reject) => {
  const call = client.Compose({
    goal: "what does node say?", max_tokens: 2000, include_local_scores: true,
    floors: [{ provider_id: "node", scale_id: "unit", value: 0.1 }],
  });
  call.on("data", (response) => messages.push(response));
  call.on("error", reject);
  call.on("end", resolve);
});

const refusal = await new Promise((resolve) => {
  const call = client.Compose({ goal: "x", max_tokens: 0 });
  call.on("data", () => {});
  call.on("error", (error) => resolve({
    code: error.code, text: error.details, details: (error.metadata.get("grpc-status-details-bin")[0] ?? "").length,
  }));
});

session.write({ detach: {} });
session.end();
console.log(JSON.stringify({ welcome, asked, messages, refusal }));
