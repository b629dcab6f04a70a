// The Node.js driver of MongoDB: `node mongodb.mjs "mongodb://HOST:PORT/?tls=true" CA_FILE`.

import { MongoClient } from "mongodb";

const [url, ca] = process.argv.slice(2);
const user = { _id: "node" };

const client = new MongoClient(url, { tlsCAFile: ca });
const users = client.db("shop").collection("users");
const name = async () => (await users.findOne(user)).name;

await users.updateOne(user, { $set: { name: "Ada" } }, { upsert: true });
const reads = [await name(), await name()]; // The second is a hit.
await users.updateOne(user, { $set: { name: "Grace" } });
reads.push(await name());
await client.close();

console.log("read twice, then after a write:", ...reads);
process.exitCode = reads.join() === "Ada,Ada,Grace" ? 0 : 1;
