"""redis-py's client of clusters, with both protocols. Argument: the port of one of three doors."""
import sys
import redis
from redis.cluster import RedisCluster, ClusterNode

port = int(sys.argv[1])
for protocol in (2, 3):
    client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port)], protocol=protocol, decode_responses=True)
    assert len(client.get_primaries()) == 3, client.get_nodes()
    client.flushall(target_nodes=RedisCluster.PRIMARIES)
    for number in range(300):
        assert client.set(f"k{number}", number)
        assert client.incrby(f"k{number}", 7) == number + 7
    assert client.mget_nonatomic([f"k{number}" for number in range(300)]) == [str(n + 7) for n in range(300)]
    assert client.mset_nonatomic({f"m{number}": number for number in range(50)})
    assert client.dbsize(target_nodes=RedisCluster.PRIMARIES) == 350
    assert sorted(client.scan_iter("m*", count=20)) == sorted(f"m{n}" for n in range(50))
    assert client.delete(*[f"m{n}" for n in range(50)]) == 50
    assert client.exists("k1", "k2", "nothing") == 2
    pipe = client.pipeline()
    for number in range(100):
        pipe.get(f"k{number}")
    assert pipe.execute() == [str(n + 7) for n in range(100)]
    with client.pipeline(transaction=True) as transaction:
        transaction.set("{t}a", 1)
        transaction.incr("{t}a")
        transaction.get("{t}b")
        done = transaction.execute()
        # The client leaves the replies of a transaction as they came.
        assert done == ["OK", 2, None], done
    try:
        client.mset({"foo": 1, "bar": 2})
        raise AssertionError("keys of two slots")
    except redis.exceptions.RedisClusterException:
        pass
    listener = client.pubsub()
    listener.ssubscribe("channel")
    assert listener.get_sharded_message(timeout=60)["type"] == "ssubscribe"
    assert client.spublish("channel", "hello") == 1
    assert listener.get_sharded_message(timeout=60)["data"] == "hello"
    listener.close()
    assert client.cluster_keyslot("foo") == 12182
    assert client.cluster_countkeysinslot(client.keyslot("k1")) >= 1
    assert client.cluster_info(target_nodes=RedisCluster.RANDOM)["cluster_state"] == "ok"
    client.close()
print("all is well")
