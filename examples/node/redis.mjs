// node-redis: `node redis.mjs rediss://HOST:PORT CA_FILE`.

import { readFileSync } from "node:fs";
import { createClient } from "redis";

const [url, ca] = process.argv.slice(2);
const key = "example:node-redis";

const client = createClient({ url, socket: { ca: readFileSync(ca), reconnectStrategy: false } });
client.on("error", (error) => console.error(error.message));
await client.connect();
await client.set(key, "Ada");
const reads = [await client.get(key), await client.get(key)]; // The second is a hit.
await client.set(key, "Grace");
reads.push(await client.get(key));
await client.close();

console.log("read twice, then after a write:", ...reads);
process.exitCode = reads.join() === "Ada,Ada,Grace" ? 0 : 1;
