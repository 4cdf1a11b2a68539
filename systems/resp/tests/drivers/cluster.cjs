// ioredis' client of clusters. Argument: the port of one of three doors.
const assert = require("node:assert");
const { Cluster } = require("ioredis");

async function main() {
  const cluster = new Cluster([{ host: "127.0.0.1", port: Number(process.argv[2]) }]);
  await cluster.ping();
  assert.equal(cluster.nodes("master").length, 3);
  await Promise.all(cluster.nodes("master").map((node) => node.flushall()));
  const numbers = Array.from({ length: 300 }, (_, number) => number);
  await Promise.all(numbers.map((n) => cluster.set(`k${n}`, n)));
  const sums = await Promise.all(numbers.map((n) => cluster.incrby(`k${n}`, 7)));
  assert.deepEqual(sums, numbers.map((n) => n + 7));
  const sizes = await Promise.all(cluster.nodes("master").map((node) => node.dbsize()));
  assert.equal(sizes.reduce((a, b) => a + b), 300);
  assert.ok(sizes.every((size) => size > 50), `${sizes}`);
  assert.deepEqual(await cluster.mget("{t}a", "{t}b"), [null, null]);
  const done = await cluster.multi().set("{t}a", 1).incr("{t}a").get("{t}a").exec();
  assert.deepEqual(done, [[null, "OK"], [null, 2], [null, "2"]]);
  const piped = await cluster.pipeline().set("{t}b", "x").getrange("{t}b", 0, 3).exec();
  assert.deepEqual(piped, [[null, "OK"], [null, "x"]]);
  await assert.rejects(cluster.mset("foo", 1, "bar", 2), /CROSSSLOT/);
  assert.equal(await cluster.getBuffer("k1").then(String), "8");
  await cluster.quit();
  // A client that believes the wrong slots learns the right ones from the refusal.
  const strayed = new Cluster([{ host: "127.0.0.1", port: Number(process.argv[2]) }], { enableReadyCheck: true });
  await strayed.ping();
  strayed.slots = Array(16384).fill(["127.0.0.1:7001"]);
  assert.equal(await strayed.get("k1"), "8");
  assert.equal(await strayed.get("foo"), null);
  strayed.disconnect();
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
