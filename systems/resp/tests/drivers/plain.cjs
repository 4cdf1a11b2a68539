// ioredis' plain client. Arguments: port, password or "", file of the TLS authority or "".
const assert = require("node:assert");
const Redis = require("ioredis");

const [port, password, authority] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const options = { port, host: "127.0.0.1", maxRetriesPerRequest: 1 };
if (password) options.password = password;
if (authority) options.tls = { rejectUnauthorized: false };

async function main() {
  const client = new Redis(options);
  await client.flushall();
  assert.equal(await client.set("a", "1", "EX", 100, "NX"), "OK");
  assert.equal(await client.set("a", "2", "NX"), null);
  assert.ok((await client.ttl("a")) > 90);
  assert.deepEqual(await client.mget("a", "none"), ["1", null]);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  await client.set("raw", bytes);
  assert.ok(bytes.equals(await client.getBuffer("raw")));
  const numbers = Array.from({ length: 500 }, (_, number) => number);
  assert.deepEqual(await Promise.all(numbers.map(() => client.incr("n"))), numbers.map((n) => n + 1));
  const done = await client.multi().set("p", 1).incr("p").exec();
  assert.deepEqual(done, [[null, "OK"], [null, 2]]);
  const other = client.duplicate();
  await client.watch("p");
  await other.set("p", "changed");
  assert.equal(await client.multi().set("p", 9).exec(), null);
  const seen = [];
  for await (const keys of client.scanStream({ match: "*", count: 2 })) seen.push(...keys);
  assert.deepEqual([...new Set(seen)].sort(), ["a", "n", "p", "raw"]);
  await assert.rejects(client.lpush("a", 1), /unknown command/);

  const arrived = new Promise((resolve) => other.on("pmessage", (pattern, channel, text) => resolve([pattern, channel, text])));
  await other.psubscribe("n?ws");
  assert.equal(await client.publish("news", "hello"), 1);
  assert.deepEqual(await arrived, ["n?ws", "news", "hello"]);
  await other.punsubscribe();
  assert.equal(await other.get("a"), "1");
  await other.quit();
  await client.quit();
  if (password) {
    const stranger = new Redis({ ...options, password: "wrong", retryStrategy: null });
    stranger.on("error", () => {});
    await assert.rejects(stranger.get("a"), /WRONGPASS|NOAUTH|closed/);
    stranger.disconnect();
  }
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
