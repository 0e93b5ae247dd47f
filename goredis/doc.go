// Package goredis makes nodes of quorumlock from the options of go-redis, so that a service has one place for the
// settings of its servers.
//
//	n, err := goredis.New(&redis.Options{Addr: "a:6379", Username: "locker", Password: secret, TLSConfig: tlsConfig})
//	...
//	client, err := quorumlock.New(quorumlock.Config{Nodes: []node.Node{n}})
//
// A node takes these settings: the addresses, TLS, user, password and all three kinds of credentials providers, the
// dialer and its timeout, the database, the name of the client, and the protocol. For a node behind Sentinel, it also
// takes the name of the master, and the user and password of the Sentinels. A node can also be one slot of a Redis
// Cluster: see [NewCluster].
//
// A node ignores the settings that belong to go-redis' pool, retries, caching, pipelines, buffers and timeouts of
// commands. It has one connection, decides itself about repetitions, and waits for a command no longer than
// 1 s: locks need a shorter timeout than most commands. It does not run commands through go-redis, so
// hooks and a Limiter do not see them. It ignores IdentitySuffix, as it never sends CLIENT SETINFO, and everything about
// push notifications. Behind Sentinel it ignores a Protocol of 2.
//
// A node refuses settings that it cannot follow: OnConnect, replicas, ClusterSlots, NewClient, and universal options that
// lead to a Redis Cluster. It also refuses the options of a client that [redis.NewFailoverClient] has made: they do not
// name the Sentinels, and would lead to an old master after a failover. The error is then an [errors.ErrUnsupported]. To use the rest of such options, change a copy of
// them.
//
// # Credentials that change
//
// A node asks a provider each time it connects, for the connection of the operations and for the subscription of the
// waiters. It does not authenticate again on a connection that works. If the server closes that connection, because a
// token has expired or the user was changed, the node connects with the present credentials and sends the operations
// again. No lease is lost if that takes less than its TTL.
//
// If a provider fails, the node counts as one that does not answer, and the next operation asks again. If the server
// does not accept the credentials, the error is a [node.ErrAuth].
package goredis
