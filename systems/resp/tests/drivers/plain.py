"""redis-py's plain and asynchronous clients. Arguments: port, password or "", file of the TLS authority or ""."""
import asyncio
import sys
import time
import redis

port, password, authority = int(sys.argv[1]), sys.argv[2] or None, sys.argv[3]
# The names of the tests' certificates are not checked: they all have one subject.
tls = {"ssl": True, "ssl_cert_reqs": "none"} if authority else {}


def plain(protocol):
    client = redis.Redis(port=port, password=password, protocol=protocol, decode_responses=True, client_name="plain", **tls)
    client.flushall()
    assert client.ping() and client.client_getname() == "plain"
    assert client.set("a", "1", ex=100, nx=True) is True and client.set("a", "2", nx=True) is None
    assert 90 < client.ttl("a") <= 100 and client.persist("a") and client.ttl("a") == -1
    assert client.incr("n", 5) == 5 and client.decrby("n", 7) == -2 and client.incrbyfloat("n", 0.5) == -1.5
    assert client.mset({"b": "x", "c": "y"}) and client.mget("a", "b", "none") == ["1", "x", None]
    assert client.getdel("c") == "y" and client.getex("b", px=5000) == "x" and client.strlen("b") == 1
    assert client.setrange("b", 3, "z") == 4 and client.get("b") == "x\0\0z" and client.append("b", "!") == 5
    assert client.set("raw", bytes(range(256))) and client.execute_command("strlen", "raw") == 256
    assert sorted(client.keys("[ab]")) == ["a", "b"] and set(client.scan_iter(count=2)) == {"a", "b", "n", "raw"}
    assert client.expireat("a", int(time.time()) + 500) and client.expiretime("a") > time.time() + 400
    assert client.type("a") == "string" and client.type("none") == "none" and client.exists("a", "a") == 2
    assert client.copy("a", "a2") and client.rename("a2", "a3") and client.unlink("a3") == 1
    with client.pipeline() as pipe:
        assert pipe.set("p", 1).incr("p").get("p").execute() == [True, 2, "2"]
    with client.pipeline() as pipe:
        pipe.watch("p")
        client.set("p", 7)
        pipe.multi()
        pipe.set("p", 8)
        try:
            pipe.execute()
            raise AssertionError("the watched key has changed")
        except redis.WatchError:
            pass
    assert client.transaction(lambda pipe: (pipe.multi(), pipe.incr("p")), "p") == [8]
    try:
        client.lpush("p", 1)
        raise AssertionError("the door has no lists")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)
    listen(client)
    facts = client.info()
    assert facts["db0"]["keys"] == client.dbsize() and facts["redis_mode"] == "standalone"
    assert client.config_get("maxclients")["maxclients"] and client.command_count() > 70
    assert client.command()["get"]["arity"] == 2 and client.command_getkeys("mset", "a", 1, "b", 2) == ["a", "b"]
    me = [one for one in client.client_list() if one["id"] == str(client.client_id())]
    assert me[0]["lib-name"].startswith("redis-py"), me
    assert client.client_info()["resp"] == str(protocol) or client.client_info()["resp"] == protocol
    assert abs(client.time()[0] - time.time()) < 1000
    client.close()


def listen(client):
    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n?ws")
    kinds = [listener.get_message(timeout=60)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"], kinds
    assert client.publish("news", "hello") == 2
    messages = [listener.get_message(timeout=60) for _ in range(2)]
    assert {one["type"] for one in messages} == {"message", "pmessage"}, messages
    assert all(one["data"] == "hello" for one in messages)
    assert client.pubsub_channels() == ["news"] and client.pubsub_numpat() == 1
    listener.unsubscribe()
    listener.close()


async def asynchronous(protocol):
    client = redis.asyncio.Redis(port=port, password=password, protocol=protocol, **tls)
    await asyncio.gather(*(client.set(f"k{n}", n) for n in range(8)))
    assert await client.mget([f"k{n}" for n in range(8)]) == [str(n).encode() for n in range(8)]
    async with client.pipeline(transaction=True) as pipe:
        assert await pipe.incr("k1").incr("k1").execute() == [2, 3]
    async with client.pubsub() as listener:
        await listener.subscribe("news")
        assert (await listener.get_message(timeout=60))["type"] == "subscribe"
        await client.publish("news", "later")
        assert (await listener.get_message(timeout=60))["data"] == b"later"
    await client.aclose()


for protocol in (2, 3):
    plain(protocol)
    asyncio.run(asynchronous(protocol))
if password:
    for wrong in (None, "wrong"):
        try:
            once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
            redis.Redis(port=port, password=wrong, retry=once, **tls).get("a")
            raise AssertionError("a stranger reads")
        except redis.AuthenticationError:
            pass
print("all is well")
