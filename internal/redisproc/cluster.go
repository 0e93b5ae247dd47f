package redisproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// clusterNodeTimeout is long enough that a busy machine does not cause a failover.
	clusterNodeTimeout = 2 * time.Second
	// failoverTimeout is longer than servers wait for a planned failover.
	failoverTimeout = 6 * time.Second
	// busOffset is the distance between the port for clients and the port of the cluster's bus.
	busOffset = 10_000
)

// WithPatience keeps a cluster from replacing a master that is only slow, for a test that kills none.
func WithPatience() Option { return WithArgs("--cluster-node-timeout", "15000") }

// Cluster is a Redis Cluster of three masters with a replica each. All messages between its servers go through
// proxies, so that [Cluster.CutOff] can isolate a server.
type Cluster struct {
	t       testing.TB
	servers []*Server
	ids     []string
	buses   []*bus

	mu sync.Mutex
	// cutOff has the ids of the servers that are isolated.
	cutOff map[string]bool
}

// StartCluster forms a cluster, and closes its servers when the test ends. It returns once all servers agree that the
// cluster serves all slots, and all replicas have the data of their masters.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, servers: make([]*Server, 2*clusterMasters), buses: make([]*bus, 2*clusterMasters), cutOff: make(map[string]bool)}
	errs := make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i := range c.servers {
		wg.Go(func() { errs[i] = c.launch(i, opts) })
	}
	wg.Wait()
	for i, s := range c.servers {
		if c.buses[i] != nil {
			t.Cleanup(c.buses[i].close)
		}
		if s != nil {
			s.adopt(t)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("redisproc: start a cluster: %v", err)
	}
	c.form()
	return c
}

// launch starts one server, with a proxy before its port for other servers.
func (c *Cluster) launch(i int, opts []Option) error {
	b, err := newBus(c)
	if err != nil {
		return err
	}
	c.buses[i] = b
	own := WithArgs(
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", strconv.FormatInt(clusterNodeTimeout.Milliseconds(), 10),
		"--cluster-replica-validity-factor", "0",
		"--cluster-announce-bus-port", strconv.Itoa(b.port()),
	)
	c.servers[i], err = TryLaunch(context.Background(), append([]Option{own}, opts...)...)
	if err == nil {
		b.serve(hostPort(c.servers[i].port + busOffset))
	}
	return err
}

// form makes the servers know each other, and gives them their roles and slots.
func (c *Cluster) form() {
	c.t.Helper()
	ids := make([]string, len(c.servers))
	for i, s := range c.servers {
		ids[i] = c.command(s, "CLUSTER", "MYID")
	}
	c.mu.Lock() // the proxies read them
	c.ids = ids
	c.mu.Unlock()
	for i, s := range c.servers {
		c.command(s, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < clusterMasters {
			slots := []string{"CLUSTER", "ADDSLOTS"}
			for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
				slots = append(slots, strconv.Itoa(slot))
			}
			c.command(s, slots...)
		}
		if i > 0 {
			c.command(c.servers[0], "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(s.port), strconv.Itoa(c.buses[i].port()))
		}
	}
	c.Await("all servers know each other", func() bool {
		return !slices.ContainsFunc(c.servers, func(s *Server) bool {
			nodes, err := s.Command("CLUSTER", "NODES")
			return err != nil || strings.Contains(nodes, "handshake") || strings.Count(nodes, " connected") != len(c.servers)
		})
	})
	for i, s := range c.servers[clusterMasters:] {
		c.command(s, "CLUSTER", "REPLICATE", c.ids[i])
	}
	c.AwaitHealthy()
}

// Servers returns all servers: first the masters at the start, then a replica of each.
func (c *Cluster) Servers() []*Server { return c.servers }

// Addresses returns the addresses of all servers.
func (c *Cluster) Addresses() []string {
	addresses := make([]string, len(c.servers))
	for i, s := range c.servers {
		addresses[i] = s.Addr()
	}
	return addresses
}

// Await polls until a condition holds, and fails the test if it never does.
func (c *Cluster) Await(what string, cond func() bool) {
	c.t.Helper()
	if !poll(startTimeout, cond) {
		var states strings.Builder
		for _, s := range c.servers {
			text, err := s.Command("CLUSTER", "NODES")
			fmt.Fprintf(&states, "\n%s: %v\n%s", s.Addr(), err, text)
		}
		c.t.Fatalf("redisproc: not seen within %v: %s%s", startTimeout, what, states.String())
	}
}

// AwaitHealthy waits until all servers that run see the cluster serve all slots, three of them are masters, and the
// others follow a master. A master that was replaced a moment ago does not know it yet.
func (c *Cluster) AwaitHealthy() {
	c.t.Helper()
	c.Await("the cluster is healthy", func() bool {
		masters := 0
		for _, s := range c.servers {
			if s.PID() == 0 {
				continue
			}
			state, err1 := s.Command("CLUSTER", "INFO")
			is, err2 := s.info("replication")
			if err1 != nil || err2 != nil || !strings.Contains(state, "cluster_state:ok") {
				return false
			}
			if is["role"] == "master" {
				masters++
			} else if is["master_link_status"] != "up" {
				return false
			}
		}
		return masters == clusterMasters
	})
}

// Slot returns the number of the slot of a key.
func (c *Cluster) Slot(key string) string {
	c.t.Helper()
	i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.PID() != 0 })
	return c.command(c.servers[max(i, 0)], "CLUSTER", "KEYSLOT", key)
}

// Owner returns the master that serves the slot of a key, as the majority of the servers that run sees it.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()
	var owner *Server
	slot, err := strconv.Atoi(c.Slot(key))
	if err != nil {
		c.t.Fatalf("redisproc: the slot of %q: %v", key, err)
	}
	c.Await("most servers name the same owner of "+key, func() bool {
		votes := make(map[*Server]int)
		for _, s := range c.servers {
			if o := c.ownerSeenBy(s, slot); o != nil {
				votes[o]++
			}
		}
		for s, n := range votes {
			if n > len(c.servers)/2 {
				owner = s
				return true
			}
		}
		return false
	})
	return owner
}

// ownerSeenBy returns the owner of a slot as one server sees it, or nil.
func (c *Cluster) ownerSeenBy(s *Server, slot int) *Server {
	if s.PID() == 0 {
		return nil
	}
	text, err := s.Command("CLUSTER", "NODES")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for _, slots := range fields[min(8, len(fields)):] {
			first, last, _ := strings.Cut(slots, "-")
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if last == "" {
				to, err2 = from, nil
			}
			if err1 == nil && err2 == nil && from <= slot && slot <= to {
				return c.servers[slices.Index(c.ids, fields[0])]
			}
		}
	}
	return nil
}

// ReplicaOf returns a server that follows the master.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	c.t.Helper()
	for _, s := range c.servers {
		if is, err := s.info("replication"); err == nil && is["role"] == "slave" && is["master_port"] == strconv.Itoa(master.port) {
			return s
		}
	}
	c.t.Fatalf("redisproc: %s has no replica", master.Addr())
	return nil
}

// OtherMaster returns a master that does not serve the slot of the key.
func (c *Cluster) OtherMaster(key string) *Server {
	c.t.Helper()
	owner := c.Owner(key)
	for _, s := range c.servers {
		if is, err := s.info("replication"); s != owner && err == nil && is["role"] == "master" {
			return s
		}
	}
	c.t.Fatalf("redisproc: no master but %s", owner.Addr())
	return nil
}

// Failover makes a replica of the owner of a key's slot take over from it, without a loss, and returns the replica. A
// server gives a failover up if the machine is too busy, so it may take several attempts.
func (c *Cluster) Failover(key string) *Server {
	c.t.Helper()
	replica := c.ReplicaOf(c.Owner(key))
	for range startAttempts {
		c.command(replica, "CLUSTER", "FAILOVER")
		if poll(failoverTimeout, func() bool {
			is, err := replica.info("replication")
			return err == nil && is["role"] == "master"
		}) {
			c.Await("the replica owns the slot", func() bool { return c.Owner(key) == replica })
			return replica
		}
	}
	c.t.Fatalf("redisproc: %s did not take over", replica.Addr())
	return nil
}

// Move moves the slot of a key to another master, with all keys in it, as redis-cli does. It calls during with the
// old owner while half of the keys are at either server.
func (c *Cluster) Move(key string, to *Server, during func(from *Server)) {
	c.t.Helper()
	from, slot := c.Owner(key), c.Slot(key)
	c.command(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.idOf(from))
	c.command(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.idOf(to))
	for i := 0; ; i++ {
		keys := strings.Fields(c.command(from, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
		if len(keys) == 0 {
			break
		}
		if i == 0 {
			keys = keys[:(len(keys)+1)/2]
		}
		args := append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "KEYS"}, keys...)
		c.command(from, args...)
		if i == 0 && during != nil {
			during(from)
		}
	}
	c.command(to, "CLUSTER", "SETSLOT", slot, "NODE", c.idOf(to))
	c.command(from, "CLUSTER", "SETSLOT", slot, "NODE", c.idOf(to))
}

func (c *Cluster) idOf(s *Server) string { return c.ids[slices.Index(c.servers, s)] }

// CutOff isolates a server from all others of the cluster, as long as the cluster lives. Clients still reach it, and
// its replica still receives its writes.
func (c *Cluster) CutOff(s *Server) {
	c.mu.Lock()
	c.cutOff[c.idOf(s)] = true
	c.mu.Unlock()
	for i, b := range c.buses {
		b.sever(func(sender string) bool { return c.servers[i] == s || sender == c.idOf(s) })
	}
}

// isCutOff reports whether a message must not pass.
func (c *Cluster) isCutOff(sender string, receiver *bus) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.buses, receiver)
	return c.cutOff[sender] || i < len(c.ids) && c.cutOff[c.ids[i]]
}

func (c *Cluster) command(s *Server, args ...string) string {
	c.t.Helper()
	text, err := s.Command(args...)
	if err != nil {
		c.t.Fatalf("redisproc: %s: %v: %v", s.Addr(), args[:min(4, len(args))], err)
	}
	return text
}

// bus is a proxy before the port at which a server of a cluster gets the messages of the others. Each connection
// carries the messages of one sender, and the answers to them.
type bus struct {
	cluster  *Cluster
	listener net.Listener
	done     sync.WaitGroup

	mu sync.Mutex
	// senders has the sender of each open connection, "" until its first message.
	senders map[net.Conn]string
	closed  bool
}

func newBus(c *Cluster) (*bus, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &bus{cluster: c, listener: listener, senders: make(map[net.Conn]string)}, nil
}

func (b *bus) port() int { return b.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// serve begins to forward connections to the server.
func (b *bus) serve(target string) {
	b.done.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return
			}
			if b.admit(conn, "") {
				b.done.Go(func() { b.forward(conn, target) })
			}
		}
	})
}

// The header of a message has the id of its sender.
const (
	senderFrom = 40
	senderTo   = senderFrom + 40
)

// forward passes one connection on, unless its sender or the server is cut off.
func (b *bus) forward(conn net.Conn, target string) {
	defer b.forget(conn)
	header := make([]byte, senderTo)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	sender := string(header[senderFrom:])
	if !b.admit(conn, sender) || b.cluster.isCutOff(sender, b) {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	b.done.Go(func() {
		defer b.forget(conn)
		_, _ = io.Copy(conn, server)
	})
	defer func() { _ = server.Close() }()
	if _, err := server.Write(header); err == nil {
		_, _ = io.Copy(server, conn)
	}
}

// admit records the sender of a connection, and reports whether the proxy is open.
func (b *bus) admit(conn net.Conn, sender string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = conn.Close()
		return false
	}
	b.senders[conn] = sender
	return true
}

func (b *bus) forget(conn net.Conn) {
	_ = conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.senders, conn)
}

// sever closes the connections of some senders.
func (b *bus) sever(which func(sender string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn, sender := range b.senders {
		if which(sender) {
			_ = conn.Close()
		}
	}
}

func (b *bus) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.listener.Close()
	b.sever(func(string) bool { return true })
	b.done.Wait()
}
