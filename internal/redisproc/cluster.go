package redisproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
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
	failoverTimeout  = 6 * time.Second
	failoverAttempts = 3
	// busOffset is the distance between the port for clients and the port of the cluster's bus. If the other servers
	// reached themselves at the port of a dead server, they would take their own messages for its messages.
	busOffset = 10_000
)

// WithNodeTimeout sets how long a server of a cluster may be silent, before the others take it for dead.
func WithNodeTimeout(d time.Duration) Option {
	return WithArgs("--cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
}

// WithPatience keeps a cluster from replacing a master that is only slow, for a test that kills none.
func WithPatience() Option { return WithNodeTimeout(15 * time.Second) }

// Cluster is a Redis Cluster of three masters with a replica each. All messages between its servers go through
// proxies, so that [Cluster.CutOff] can isolate a server. A method that fails ends the test, or the steps of
// [Cluster.Try].
type Cluster struct {
	*members
	ctx  context.Context
	fail func(error)
}

type members struct {
	servers []*Server
	ids     []string
	// buses are before the ports at which servers get the messages of the others. Each connection carries the messages of
	// one sender, and the answers to them.
	buses []*Front

	mu     sync.Mutex
	cutOff map[string]bool
}

// StartCluster is [TryLaunchCluster] for a test. It closes the servers when the test ends.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := TryLaunchCluster(context.Background(), opts...)
	if err != nil {
		t.Fatalf("redisproc: %v", err)
	}
	c.fail = func(err error) {
		t.Helper()
		t.Fatalf("redisproc: %v", err)
	}
	for _, b := range c.buses {
		t.Cleanup(b.close)
	}
	for _, s := range c.servers {
		s.adopt(t)
	}
	return c
}

// failure is the error of a step of [Cluster.Try].
type failure struct{ error }

// Try does steps without a test around them. The first that fails ends them, and is the error.
func (c *Cluster) Try(ctx context.Context, steps func(c *Cluster)) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	steps(&Cluster{members: c.members, ctx: ctx, fail: func(err error) { panic(failure{err}) }})
	return nil
}

// TryLaunchCluster forms a cluster without a test around it. The caller must close it. It returns once all servers
// agree that the cluster serves all slots, and all replicas have the data of their masters.
func TryLaunchCluster(ctx context.Context, opts ...Option) (*Cluster, error) {
	for attempt := 1; ; attempt++ {
		c, err := launchCluster(ctx, opts)
		if err == nil {
			return c, nil
		}
		// Another process may have taken a port since it was free.
		if !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return nil, fmt.Errorf("start a cluster: %w", err)
		}
	}
}

// launchCluster starts servers that know each other from their files, as after a restart of all: a server that is told
// to meet others may forget them on a busy machine.
func launchCluster(ctx context.Context, opts []Option) (*Cluster, error) {
	const n = 2 * clusterMasters
	c := &Cluster{ctx: context.Background(), members: &members{
		servers: make([]*Server, n), ids: make([]string, n), buses: make([]*Front, n), cutOff: make(map[string]bool),
	}}
	ports := make([]int, n)
	for i := range n {
		var err error
		// The ids are random, because servers refuse to talk to one with another id. It may be of another cluster.
		c.ids[i] = fmt.Sprintf("%016x%016x%08x", rand.Uint64(), rand.Uint64(), i)
		if ports[i], err = freePort(highestPort-busOffset, busOffset); err == nil {
			c.buses[i], err = newFront()
		}
		if err != nil {
			return nil, errors.Join(err, c.TryClose())
		}
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c.buses[i].serve(func(conn net.Conn) { c.forward(i, conn, hostPort(ports[i]+busOffset)) })
			c.servers[i], errs[i] = TryLaunch(ctx, append(c.options(i, ports), opts...)...)
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = c.Try(ctx, (*Cluster).AwaitHealthy)
	}
	if err != nil {
		return nil, errors.Join(err, c.TryClose())
	}
	return c, nil
}

func (c *members) options(i int, ports []int) []Option {
	return []Option{
		func(conf *config) { conf.member = &member{port: ports[i], file: c.file(i, ports)} },
		WithArgs(
			"--cluster-enabled", "yes", "--cluster-config-file", clusterFile,
			"--cluster-replica-validity-factor", "0",
			"--loglevel", "notice", // the log says which servers were taken for dead, and which were elected
			"--cluster-announce-bus-port", strconv.Itoa(c.buses[i].port()),
		),
		WithNodeTimeout(clusterNodeTimeout),
	}
}

// member is what a server of a cluster needs besides its options.
type member struct {
	port int
	file string // what it knows about the cluster at first
}

// clusterFile is the file in which a server keeps what it knows about its cluster.
const clusterFile = "nodes.conf"

// file is the content of that file for one server: a line as of CLUSTER NODES for each server.
func (c *members) file(of int, ports []int) string {
	var b strings.Builder
	for i, id := range c.ids {
		role, slots := "master -", ""
		master := i % clusterMasters
		if i == master {
			slots = fmt.Sprintf(" %d-%d", i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1)
		} else {
			role = "slave " + c.ids[master]
		}
		if i == of {
			role = "myself," + role
		}
		fmt.Fprintf(&b, "%s 127.0.0.1:%d@%d %s 0 0 %d connected%s\n", id, ports[i], c.buses[i].port(), role, master+1, slots)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", clusterMasters)
	return b.String()
}

// TryClose closes all servers. It may be called more than once.
func (c *members) TryClose() error {
	var errs []error
	for _, s := range c.servers {
		if s != nil {
			errs = append(errs, s.TryClose())
		}
	}
	for _, b := range c.buses {
		if b != nil {
			b.close()
		}
	}
	return errors.Join(errs...)
}

// Servers returns all servers: first the masters at the start, then a replica of each.
func (c *members) Servers() []*Server { return c.servers }

// Addresses returns the addresses of all servers.
func (c *members) Addresses() []string {
	addresses := make([]string, len(c.servers))
	for i, s := range c.servers {
		addresses[i] = s.Addr()
	}
	return addresses
}

func (c *Cluster) must(err error) {
	if err != nil {
		c.fail(err)
	}
}

// Await polls until a condition holds. The failure has the state of the cluster.
func (c *Cluster) Await(what string, cond func() bool) {
	held := false
	poll(startTimeout, func() bool {
		held = cond()
		return held || c.ctx.Err() != nil
	})
	if !held {
		c.fail(errors.Join(c.ctx.Err(), fmt.Errorf("not seen within %v: %s%s", startTimeout, what, strings.Join(c.views("NODES"), ""))))
	}
}

// Views returns what each server says about the cluster and the other servers, and its log since its last start, for the
// message of a test that fails.
func (c *Cluster) Views() []string {
	views := append(c.views("INFO"), c.views("NODES")...)
	for _, s := range c.servers {
		log, err := os.ReadFile(s.logFile())
		views = append(views, fmt.Sprintf("\n%s: log: %v\n%s", s.Addr(), err, log))
	}
	return views
}

// views returns what each server replies to a subcommand of CLUSTER.
func (c *Cluster) views(subcommand string) []string {
	views := make([]string, len(c.servers))
	for i, s := range c.servers {
		text, err := c.ask(s, "CLUSTER", subcommand)
		views[i] = fmt.Sprintf("\n%s: %v\n%s", s.Addr(), err, text)
	}
	return views
}

// ask sends a command that may fail.
func (c *Cluster) ask(s *Server, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.ctx, commandTimeout)
	defer cancel()
	text, err := s.Do(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("%s: %v: %w", s.Addr(), args[:min(4, len(args))], err)
	}
	return text, nil
}

// command sends a command that must not fail.
func (c *Cluster) command(s *Server, args ...string) string {
	text, err := c.ask(s, args...)
	c.must(err)
	return text
}

// number sends a command that returns a number in its last line.
func (c *Cluster) number(s *Server, args ...string) int {
	text := c.command(s, args...)
	n, err := strconv.Atoi(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	c.must(err)
	return n
}

// AwaitHealthy waits until all servers that run see the cluster serve all slots, three of them are masters, the
// others follow a master, and all know that. A master that was replaced a moment ago does not know it yet. And masters
// do not vote for a replica that they take for a master.
func (c *Cluster) AwaitHealthy() {
	c.Await("the cluster is healthy", func() bool {
		var masters, replicas, running []*Server
		for _, s := range c.servers {
			if s.PID() == 0 {
				continue
			}
			state, err1 := c.ask(s, "CLUSTER", "INFO")
			is, err2 := s.info(c.ctx, "replication")
			if err1 != nil || err2 != nil || !strings.Contains(state, "cluster_state:ok") {
				return false
			}
			running = append(running, s)
			if is["role"] == "master" {
				masters = append(masters, s)
			} else if replicas = append(replicas, s); is["master_link_status"] != "up" {
				return false
			}
		}
		return len(masters) == clusterMasters && !slices.ContainsFunc(running, func(s *Server) bool {
			seen := c.seenBy(s)
			return slices.ContainsFunc(replicas, func(r *Server) bool { return !strings.Contains(seen[r].flags, "slave") })
		})
	})
}

type sight struct {
	flags string
	slots []string // such as "0-5460", and "7"
}

// seenBy returns what a server says about all. It returns nothing if the server does not run.
func (c *Cluster) seenBy(s *Server) map[*Server]sight {
	if s.PID() == 0 {
		return nil
	}
	text, err := c.ask(s, "CLUSTER", "NODES")
	if err != nil {
		return nil
	}
	seen := make(map[*Server]sight)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if i := slices.Index(c.ids, fields[0]); i >= 0 && len(fields) >= 8 {
			seen[c.servers[i]] = sight{fields[2], fields[8:]}
		}
	}
	return seen
}

func (of sight) owns(slot int) bool {
	return slices.ContainsFunc(of.slots, func(slots string) bool {
		var from, to int
		n, _ := fmt.Sscanf(slots, "%d-%d", &from, &to)
		return n == 1 && from == slot || n == 2 && from <= slot && slot <= to
	})
}

// Slot returns the number of the slot of a key.
func (c *Cluster) Slot(key string) int {
	i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.PID() != 0 })
	return c.number(c.servers[max(i, 0)], "CLUSTER", "KEYSLOT", key)
}

// Owner returns the master that serves the slot of a key, as the majority of the servers sees it.
func (c *Cluster) Owner(key string) *Server {
	return c.awaitOwner(c.Slot(key), func(_ *Server, votes, _ int) bool { return votes > len(c.servers)/2 })
}

// awaitOwner waits until enough of the servers that run name the same owner of a slot.
func (c *Cluster) awaitOwner(slot int, enough func(s *Server, votes, running int) bool) (owner *Server) {
	c.Await(fmt.Sprintf("the servers name the same owner of slot %d", slot), func() bool {
		votes, running := make(map[*Server]int), 0
		for _, s := range c.servers {
			if s.PID() != 0 {
				running++
			}
			for other, is := range c.seenBy(s) {
				if is.owns(slot) {
					votes[other]++
				}
			}
		}
		for s, n := range votes {
			if enough(s, n, running) {
				owner = s
			}
		}
		return owner != nil
	})
	return owner
}

// awaitTakeover waits until most servers name this owner of a slot.
func (c *Cluster) awaitTakeover(slot int, by *Server) {
	c.awaitOwner(slot, func(s *Server, votes, _ int) bool { return s == by && votes > len(c.servers)/2 })
}

func (c *Cluster) find(what string, told func(s *Server, is map[string]string) bool) *Server {
	for _, s := range c.servers {
		if is, err := s.info(c.ctx, "replication"); err == nil && told(s, is) {
			return s
		}
	}
	c.fail(fmt.Errorf("there is no %s", what))
	return nil
}

// ReplicaOf returns a server that follows the master.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	return c.find("replica of "+master.Addr(), func(_ *Server, is map[string]string) bool {
		return is["role"] == "slave" && is["master_port"] == strconv.Itoa(master.port)
	})
}

// OtherMaster returns a master that does not serve the slot of the key.
func (c *Cluster) OtherMaster(key string) *Server {
	owner := c.Owner(key)
	return c.find("master but "+owner.Addr(), func(s *Server, is map[string]string) bool {
		return s != owner && is["role"] == "master"
	})
}

// Failover makes a replica of the owner of a key's slot take over from it, without a loss, and returns the replica.
// A server gives a failover up if the machine is too busy, so it may take several attempts. A master votes once in two node
// timeouts. So the attempts are further apart than that: otherwise each may get the vote of one master only.
func (c *Cluster) Failover(key string) *Server {
	replica := c.ReplicaOf(c.Owner(key))
	nodeTimeout := time.Duration(c.number(replica, "CONFIG", "GET", "cluster-node-timeout")) * time.Millisecond
	for range failoverAttempts {
		// While the master looks dead, the replica refuses this, and may take over by itself.
		if _, err := c.ask(replica, "CLUSTER", "FAILOVER"); err != nil && !strings.Contains(err.Error(), "Master is down") {
			c.fail(err)
		}
		if poll(failoverTimeout+2*nodeTimeout, func() bool {
			is, err := replica.info(c.ctx, "replication")
			return err == nil && is["role"] == "master"
		}) {
			c.awaitTakeover(c.Slot(key), replica)
			return replica
		}
	}
	c.fail(fmt.Errorf("%s did not take over", replica.Addr()))
	return nil
}

// Move moves the slot of a key to another master, with all keys in it, as redis-cli does. It calls during with the
// old owner while half of the keys are at either server.
func (c *Cluster) Move(key string, to *Server, during func(from *Server)) {
	slot := c.Slot(key)
	// A server that imports a slot takes no news of it. If it had not heard of a failover before, the slot would have no
	// owner in its view, and the cluster would be down.
	from := c.awaitOwner(slot, func(_ *Server, votes, running int) bool { return votes == running })
	set := func(at *Server, state string, other *Server) {
		c.command(at, "CLUSTER", "SETSLOT", strconv.Itoa(slot), state, c.idOf(other))
	}
	set(to, "IMPORTING", from)
	set(from, "MIGRATING", to)
	for i := 0; ; i++ {
		keys := strings.Fields(c.command(from, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(slot), "100"))
		if len(keys) == 0 {
			break
		}
		if i == 0 {
			keys = keys[:(len(keys)+1)/2]
		}
		c.patiently(from, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "KEYS"}, keys...)...)
		if i == 0 && during != nil {
			during(from)
		}
	}
	set(to, "NODE", to)
	set(from, "NODE", to)
}

// MoveAtOnce moves the slot of a key to another master in one step, by CLUSTER MIGRATESLOTS of Valkey 9.0. It does
// nothing if the servers have no such command.
func (c *Cluster) MoveAtOnce(key string, to *Server) (moved bool) {
	slot := c.Slot(key)
	_, err := c.ask(c.Owner(key), "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", strconv.Itoa(slot), strconv.Itoa(slot), "NODE", c.idOf(to))
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown subcommand") {
		return false
	}
	c.must(err)
	c.awaitTakeover(slot, to)
	return true
}

// patiently runs a command again once the cluster is healthy, if a server says that it is down. On a busy machine, the
// servers may take each other for dead.
func (c *Cluster) patiently(s *Server, args ...string) {
	_, err := c.ask(s, args...)
	if err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") {
		c.AwaitHealthy()
		_, err = c.ask(s, args...)
	}
	c.must(err)
}

func (c *members) idOf(s *Server) string { return c.ids[slices.Index(c.servers, s)] }

// CutOff isolates a server from all others of the cluster, until Rejoin. Clients still reach it, and its replica still
// receives its writes.
func (c *members) CutOff(s *Server) {
	c.mu.Lock()
	c.cutOff[c.idOf(s)] = true
	c.mu.Unlock()
	for i, b := range c.buses {
		b.sever(func(sender string) bool { return c.servers[i] == s || sender == c.idOf(s) })
	}
}

// Rejoin ends CutOff.
func (c *members) Rejoin(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cutOff, c.idOf(s))
}

// The header of a message has the id of its sender.
const (
	senderFrom = 40
	senderTo   = senderFrom + 40
)

// forward passes one connection on to a server, unless its sender or the server is cut off.
func (c *members) forward(i int, conn net.Conn, target string) {
	header := make([]byte, senderTo)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	sender := string(header[senderFrom:])
	if c.buses[i].name(conn, sender) == nil || c.isCutOff(sender, c.ids[i]) {
		return
	}
	relay(conn, target, func(to, from net.Conn) {
		if _, err := to.Write(header); err == nil {
			Copy(to, from)
		}
	}, Copy)
}

func (c *members) isCutOff(sender, receiver string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cutOff[sender] || c.cutOff[receiver]
}
