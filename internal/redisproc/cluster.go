package redisproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// clusterNodeTimeout is long enough that a busy machine does not cause a failover.
	clusterNodeTimeout = 2 * time.Second
	// failoverTimeout is longer than servers wait for a planned failover.
	failoverTimeout = 6 * time.Second
	// failoverAttempts is how often a planned failover is begun.
	failoverAttempts = 3
	// meetAgain is longer than a server waits for the answer of one that it was told to meet.
	meetAgain = 3 * time.Second
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
// proxies, so that [Cluster.CutOff] can isolate a server. As in [Server], methods whose name begins
// with Try need no test.
type Cluster struct {
	servers []*Server
	ids     []string
	buses   []*bus
	fail    func(format string, args ...any)

	mu sync.Mutex
	// cutOff has the ids of the servers that are isolated.
	cutOff map[string]bool
}

// TryLaunchCluster forms a cluster without a test around it. The caller must close it. It returns once all servers
// agree that the cluster serves all slots, and all replicas have the data of their masters.
func TryLaunchCluster(ctx context.Context, opts ...Option) (*Cluster, error) {
	c := &Cluster{
		servers: make([]*Server, 2*clusterMasters), buses: make([]*bus, 2*clusterMasters),
		fail: panicf, cutOff: make(map[string]bool),
	}
	errs := make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i := range c.servers {
		wg.Go(func() { errs[i] = c.launch(ctx, i, opts) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = c.form(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.TryClose())
	}
	return c, nil
}

// launch starts one server, with a proxy before its port for other servers.
func (c *Cluster) launch(ctx context.Context, i int, opts []Option) error {
	b, err := newBus(c)
	if err != nil {
		return err
	}
	c.buses[i] = b
	own := []Option{
		func(c *config) { c.cluster = true },
		WithArgs(
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-replica-validity-factor", "0",
			"--loglevel", "notice", // the log says which servers were taken for dead, and which were elected
			"--cluster-announce-bus-port", strconv.Itoa(b.port()),
		),
		WithNodeTimeout(clusterNodeTimeout),
	}
	c.servers[i], err = TryLaunch(ctx, append(own, opts...)...)
	if err == nil {
		b.serve(hostPort(c.servers[i].port + busOffset))
	}
	return err
}

// form makes the servers know each other, and gives them their roles and slots.
func (c *Cluster) form(ctx context.Context) error {
	ids := make([]string, len(c.servers))
	for i, s := range c.servers {
		var err error
		if ids[i], err = c.command(ctx, s, "CLUSTER", "MYID"); err != nil {
			return err
		}
	}
	c.mu.Lock() // the proxies read them
	c.ids = ids
	c.mu.Unlock()
	for i, s := range c.servers {
		if err := c.introduce(ctx, i, s); err != nil {
			return err
		}
	}
	if err := c.awaitAcquaintance(ctx); err != nil {
		return err
	}
	for i, s := range c.servers[clusterMasters:] {
		if _, err := c.command(ctx, s, "CLUSTER", "REPLICATE", c.ids[i]); err != nil {
			return err
		}
	}
	return c.TryAwaitHealthy(ctx)
}

// awaitAcquaintance waits until all servers know each other. On a busy machine, a server may forget one that it was
// told to meet, before the answer comes. The others know it then, but it knows no other server, and must be told again.
func (c *Cluster) awaitAcquaintance(ctx context.Context) error {
	told := time.Now()
	return c.tryAwait(ctx, "all servers know each other", func() bool {
		stranger := slices.IndexFunc(c.servers, func(s *Server) bool {
			nodes, err := c.command(ctx, s, "CLUSTER", "NODES")
			return err != nil || strings.Contains(nodes, "handshake") || strings.Count(nodes, " connected") != len(c.servers)
		})
		if stranger >= 0 && time.Since(told) > meetAgain {
			told = time.Now()
			for i := range c.servers {
				if i != stranger {
					_ = c.meet(ctx, c.servers[stranger], i)
				}
			}
		}
		return stranger < 0
	})
}

// meet tells a server to connect to another one.
func (c *Cluster) meet(ctx context.Context, s *Server, other int) error {
	_, err := c.command(ctx, s, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.servers[other].port), strconv.Itoa(c.buses[other].port()))
	return err
}

// introduce gives one server its slots, and makes it known to the first.
func (c *Cluster) introduce(ctx context.Context, i int, s *Server) error {
	commands := [][]string{{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}}
	if i < clusterMasters {
		slots := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * clusterSlots / clusterMasters; slot < (i+1)*clusterSlots/clusterMasters; slot++ {
			slots = append(slots, strconv.Itoa(slot))
		}
		commands = append(commands, slots)
	}
	for _, args := range commands {
		if _, err := c.command(ctx, s, args...); err != nil {
			return err
		}
	}
	if i == 0 {
		return nil
	}
	return c.meet(ctx, c.servers[0], i)
}

// TryClose closes all servers. It may be called more than once.
func (c *Cluster) TryClose() error {
	errs := make([]error, len(c.servers))
	var wg sync.WaitGroup
	for i, s := range c.servers {
		if s != nil {
			wg.Go(func() { errs[i] = s.TryClose() })
		}
	}
	wg.Wait()
	for _, b := range c.buses {
		if b != nil {
			b.close()
		}
	}
	return errors.Join(errs...)
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

// tryAwait polls until a condition holds. The error has the state of the cluster.
func (c *Cluster) tryAwait(ctx context.Context, what string, cond func() bool) error {
	held := false
	poll(startTimeout, func() bool {
		held = cond()
		return held || ctx.Err() != nil
	})
	if held {
		return nil
	}
	return errors.Join(ctx.Err(), fmt.Errorf("not seen within %v: %s%s", startTimeout, what, strings.Join(c.views(ctx, "NODES"), "")))
}

// Views returns what each server says about the cluster and the other servers, and its log since its last start, for the
// message of a test that fails.
func (c *Cluster) Views(ctx context.Context) []string {
	views := append(c.views(ctx, "INFO"), c.views(ctx, "NODES")...)
	for _, s := range c.servers {
		log, err := os.ReadFile(s.logFile())
		views = append(views, fmt.Sprintf("\n%s: log: %v\n%s", s.Addr(), err, log))
	}
	return views
}

// views returns what each server replies to a subcommand of CLUSTER.
func (c *Cluster) views(ctx context.Context, subcommand string) []string {
	views := make([]string, len(c.servers))
	for i, s := range c.servers {
		text, err := c.command(ctx, s, "CLUSTER", subcommand)
		views[i] = fmt.Sprintf("\n%s: %v\n%s", s.Addr(), err, text)
	}
	return views
}

// TryAwaitHealthy waits until all servers that run see the cluster serve all slots, three of them are masters, the
// others follow a master, and all know that. A master that was replaced a moment ago does not know it yet. And masters
// do not vote for a replica that they take for a master.
func (c *Cluster) TryAwaitHealthy(ctx context.Context) error {
	return c.tryAwait(ctx, "the cluster is healthy", func() bool {
		masters := 0
		var replicas []string
		for i, s := range c.servers {
			if s.PID() == 0 {
				continue
			}
			state, err1 := c.command(ctx, s, "CLUSTER", "INFO")
			is, err2 := s.info(ctx, "replication")
			if err1 != nil || err2 != nil || !strings.Contains(state, "cluster_state:ok") {
				return false
			}
			if is["role"] == "master" {
				masters++
			} else if is["master_link_status"] != "up" {
				return false
			} else {
				replicas = append(replicas, c.ids[i])
			}
		}
		return masters == clusterMasters && c.allKnow(ctx, replicas)
	})
}

// allKnow reports whether all servers that run know that these are replicas.
func (c *Cluster) allKnow(ctx context.Context, replicas []string) bool {
	return !slices.ContainsFunc(c.servers, func(s *Server) bool {
		if s.PID() == 0 {
			return false
		}
		nodes, err := c.command(ctx, s, "CLUSTER", "NODES")
		known := 0
		for line := range strings.Lines(nodes) {
			if fields := strings.Fields(line); slices.Contains(replicas, fields[0]) && strings.Contains(fields[2], "slave") {
				known++
			}
		}
		return err != nil || known < len(replicas)
	})
}

// slot returns the number of the slot of a key.
func (c *Cluster) slot(ctx context.Context, key string) (string, error) {
	i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.PID() != 0 })
	return c.command(ctx, c.servers[max(i, 0)], "CLUSTER", "KEYSLOT", key)
}

// TryOwner returns the master that serves the slot of a key, as the majority of the servers sees it.
func (c *Cluster) TryOwner(ctx context.Context, key string) (*Server, error) {
	text, err := c.slot(ctx, key)
	if err != nil {
		return nil, err
	}
	slot, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	var owner *Server
	err = c.tryAwait(ctx, "most servers name the same owner of "+key, func() bool {
		votes := make(map[*Server]int)
		for _, s := range c.servers {
			if o := c.ownerSeenBy(ctx, s, slot); o != nil {
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
	return owner, err
}

// ownerSeenBy returns the owner of a slot as one server sees it, or nil.
func (c *Cluster) ownerSeenBy(ctx context.Context, s *Server, slot int) *Server {
	if s.PID() == 0 {
		return nil
	}
	text, err := c.command(ctx, s, "CLUSTER", "NODES")
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

// tryReplicaOf returns a server that follows the master.
func (c *Cluster) tryReplicaOf(ctx context.Context, master *Server) (*Server, error) {
	for _, s := range c.servers {
		if is, err := s.info(ctx, "replication"); err == nil && is["role"] == "slave" && is["master_port"] == strconv.Itoa(master.port) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has no replica", master.Addr())
}

// TryOtherMaster returns a master that does not serve the slot of the key.
func (c *Cluster) TryOtherMaster(ctx context.Context, key string) (*Server, error) {
	owner, err := c.TryOwner(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, s := range c.servers {
		if is, err := s.info(ctx, "replication"); s != owner && err == nil && is["role"] == "master" {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no master but %s", owner.Addr())
}

// TryFailover makes a replica of the owner of a key's slot take over from it, without a loss, and returns the replica.
// A server gives a failover up if the machine is too busy, so it may take several attempts. A master votes once in two node
// timeouts. So the attempts are further apart than that: otherwise each may get the vote of one master only.
func (c *Cluster) TryFailover(ctx context.Context, key string) (*Server, error) {
	owner, err := c.TryOwner(ctx, key)
	if err != nil {
		return nil, err
	}
	replica, err := c.tryReplicaOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	nodeTimeout, err := c.nodeTimeout(ctx, replica)
	if err != nil {
		return nil, err
	}
	for range failoverAttempts {
		// While the master looks dead, the replica refuses this, and may take over by itself.
		if _, err := c.command(ctx, replica, "CLUSTER", "FAILOVER"); err != nil && !strings.Contains(err.Error(), "Master is down") {
			return nil, err
		}
		if poll(failoverTimeout+2*nodeTimeout, func() bool {
			is, err := replica.info(ctx, "replication")
			return err == nil && is["role"] == "master"
		}) {
			return replica, c.tryAwait(ctx, "the replica owns the slot", func() bool {
				owner, err := c.TryOwner(ctx, key)
				return err == nil && owner == replica
			})
		}
	}
	return nil, fmt.Errorf("%s did not take over", replica.Addr())
}

// nodeTimeout asks a server how long another may be silent, before it takes it for dead.
func (c *Cluster) nodeTimeout(ctx context.Context, s *Server) (time.Duration, error) {
	text, err := c.command(ctx, s, "CONFIG", "GET", "cluster-node-timeout")
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(text, "\n")
	ms, err := strconv.Atoi(strings.TrimSpace(value))
	return time.Duration(ms) * time.Millisecond, err
}

// TryMove moves the slot of a key to another master, with all keys in it, as redis-cli does. It calls during with the
// old owner while half of the keys are at either server.
func (c *Cluster) TryMove(ctx context.Context, key string, to *Server, during func(from *Server)) error {
	slot, err := c.slot(ctx, key)
	if err != nil {
		return err
	}
	from, err := c.agreedOwner(ctx, slot)
	if err != nil {
		return err
	}
	if err := c.setSlot(ctx, slot, to, "IMPORTING", from); err != nil {
		return err
	}
	if err := c.setSlot(ctx, slot, from, "MIGRATING", to); err != nil {
		return err
	}
	if err := c.moveKeys(ctx, slot, from, to, during); err != nil {
		return err
	}
	return errors.Join(c.setSlot(ctx, slot, to, "NODE", to), c.setSlot(ctx, slot, from, "NODE", to))
}

// TryMoveAtOnce moves the slot of a key to another master in one step, by CLUSTER MIGRATESLOTS of Valkey 9.0. It does
// nothing if the servers have no such command.
func (c *Cluster) TryMoveAtOnce(ctx context.Context, key string, to *Server) (moved bool, err error) {
	from, err := c.TryOwner(ctx, key)
	if err != nil {
		return false, err
	}
	slot, err := c.slot(ctx, key)
	if err != nil {
		return false, err
	}
	_, err = c.command(ctx, from, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", c.idOf(to))
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown subcommand") {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.tryAwait(ctx, "the slot has moved", func() bool {
		owner, err := c.TryOwner(ctx, key)
		return err == nil && owner == to
	})
}

// agreedOwner waits until all servers that run name the same owner of a slot. A server that imports a slot takes no news of
// it. If it had not heard of a failover before, the slot would have no owner in its view, and the cluster would be down.
func (c *Cluster) agreedOwner(ctx context.Context, slot string) (owner *Server, err error) {
	number, err := strconv.Atoi(slot)
	if err != nil {
		return nil, err
	}
	err = c.tryAwait(ctx, "all servers name the same owner of slot "+slot, func() bool {
		owner = nil
		return !slices.ContainsFunc(c.servers, func(s *Server) bool {
			seen := c.ownerSeenBy(ctx, s, number)
			if owner == nil {
				owner = seen
			}
			return s.PID() != 0 && (seen == nil || seen != owner)
		})
	})
	return owner, err
}

func (c *Cluster) setSlot(ctx context.Context, slot string, at *Server, state string, other *Server) error {
	_, err := c.command(ctx, at, "CLUSTER", "SETSLOT", slot, state, c.idOf(other))
	return err
}

// moveKeys moves all keys of a slot, and calls during after the first half.
func (c *Cluster) moveKeys(ctx context.Context, slot string, from, to *Server, during func(from *Server)) error {
	for i := 0; ; i++ {
		text, err := c.command(ctx, from, "CLUSTER", "GETKEYSINSLOT", slot, "100")
		keys := strings.Fields(text)
		if err != nil || len(keys) == 0 {
			return err
		}
		if i == 0 {
			keys = keys[:(len(keys)+1)/2]
		}
		args := append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "5000", "KEYS"}, keys...)
		if err := c.patiently(ctx, from, args...); err != nil {
			return err
		}
		if i == 0 && during != nil {
			during(from)
		}
	}
}

func (c *Cluster) idOf(s *Server) string { return c.ids[slices.Index(c.servers, s)] }

// CutOff isolates a server from all others of the cluster, until Rejoin. Clients still reach it, and its replica still
// receives its writes.
func (c *Cluster) CutOff(s *Server) {
	c.mu.Lock()
	c.cutOff[c.idOf(s)] = true
	c.mu.Unlock()
	for i, b := range c.buses {
		b.sever(func(sender string) bool { return c.servers[i] == s || sender == c.idOf(s) })
	}
}

// Rejoin ends CutOff.
func (c *Cluster) Rejoin(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cutOff, c.idOf(s))
}

// isCutOff reports whether a message must not pass.
func (c *Cluster) isCutOff(sender string, receiver *bus) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.buses, receiver)
	return c.cutOff[sender] || i < len(c.ids) && c.cutOff[c.ids[i]]
}

// patiently runs a command again once the cluster is healthy, if a server says that it is down. On a busy machine, the
// servers may take each other for dead.
func (c *Cluster) patiently(ctx context.Context, s *Server, args ...string) error {
	_, err := c.command(ctx, s, args...)
	if err == nil || !strings.Contains(err.Error(), "CLUSTERDOWN") {
		return err
	}
	if err := c.TryAwaitHealthy(ctx); err != nil {
		return err
	}
	_, err = c.command(ctx, s, args...)
	return err
}

func (c *Cluster) command(ctx context.Context, s *Server, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	text, err := s.Do(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("%s: %v: %w", s.Addr(), args[:min(4, len(args))], err)
	}
	return text, nil
}
