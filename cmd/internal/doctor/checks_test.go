package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

var limits = node.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}

// healthy returns facts of three nodes without findings.
func healthy() *Facts {
	f := &Facts{Config: Config{Limits: limits, Timeout: 500 * time.Millisecond, Names: []string{"a"}}}
	for i := range 3 {
		id := fmt.Sprint("id", i)
		f.Nodes = append(f.Nodes, Node{
			Name: fmt.Sprint("n", i), User: "locker",
			Info: Fact[Info]{Value: Info{
				"redis_version": "6.2.7", "role": "master", "master_replid": id, "maxmemory_policy": "noeviction",
				"aof_enabled": "1", "cluster_enabled": "0", "maxmemory": "0", "connected_slaves": "0",
			}},
			Settings: map[string]Fact[string]{
				"min-replicas-to-write": {Value: "0"}, "min-replicas-max-lag": {Value: "10"}, "stop-writes-on-bgsave-error": {Value: "yes"},
			},
			Lists:  Fact[*wire.ListReply]{Value: &wire.ListReply{ID: id}},
			Marker: Fact[*Marker]{Value: &Marker{Identity: id}},
			Clock:  Fact[Offset]{Value: Offset{Error: time.Millisecond}},
			Trips:  []time.Duration{time.Millisecond, 2 * time.Millisecond},
			Trials: []Trial{{Rule: "+hset", For: rights.ForLocks, Verdict: Permitted}},
		})
	}
	return f
}

// with returns healthy facts with a change to the first of three nodes.
func with(change func(f *Facts, n *Node, info Info)) *Facts {
	f := healthy()
	change(f, &f.Nodes[0], f.Nodes[0].Info.Value)
	return f
}

// evict sets a policy that evicts, and a limit in bytes.
func evict(info Info, limit string) {
	info["maxmemory_policy"], info["maxmemory"] = "volatile-ttl", limit
}

// found returns a report's findings as "check severity nodes", without the findings that are OK.
func found(r *Report) (all []string) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.ID, f.Severity, strings.Join(f.Nodes, " "))))
		}
	}
	return all
}

func TestNothingIsFoundOfHealthyNodes(t *testing.T) {
	r := healthy().Report()
	assert.Empty(t, found(r))
	assert.Equal(t, OK, r.Severity)
	assert.Len(t, r.Checks, len(checks))
}

var errDenied = errors.New("NOPERM")

// TestChecks tests each rule with facts on both sides of its threshold.
func TestChecks(t *testing.T) {
	silent := fmt.Errorf("%w: i/o timeout", node.ErrTimeout)
	for name, c := range map[string]struct {
		change func(f *Facts, n *Node, info Info)
		want   []string
	}{
		"two nodes":                {func(f *Facts, _ *Node, _ Info) { f.Nodes = f.Nodes[:2] }, []string{"count error"}},
		"two, as is meant":         {func(f *Facts, _ *Node, _ Info) { f.Nodes, f.AllowEven = f.Nodes[:2], true }, nil},
		"one node":                 {func(f *Facts, _ *Node, _ Info) { f.Nodes = f.Nodes[:1] }, []string{"count note"}},
		"eviction without a limit": {func(_ *Facts, _ *Node, info Info) { evict(info, "0") }, []string{"eviction note n0"}},
		"eviction that is allowed": {func(_ *Facts, n *Node, info Info) {
			evict(info, "1048576")
			n.AllowEviction = true
		}, []string{"eviction warning n0"}},
		"losses that cannot be seen, and no INFO": {func(_ *Facts, n *Node, _ Info) {
			n.Unseen, n.Info, n.Marker.Value.Identity = "it refuses INFO", Fact[Info]{Err: errDenied}, "unseen00"
		}, []string{"usable warning n0", "eviction unknown n0", "memory unknown n0", "persistence unknown n0", "identity unknown n0", "replication unknown n0"}},
		"an identity that this program cannot see": {
			func(_ *Facts, n *Node, _ Info) { n.Unseen = "it refuses INFO in scripts" },
			[]string{"usable warning n0", "marker error n0"},
		},
		"no policy":                    {func(_ *Facts, _ *Node, info Info) { delete(info, "maxmemory_policy") }, []string{"eviction unknown n0"}},
		"keys were evicted":            {func(_ *Facts, _ *Node, info Info) { info["evicted_keys"] = "3" }, []string{"eviction warning n0"}},
		"memory is left":               {memory("89", "0"), nil},
		"memory is scarce":             {memory("90", "0"), []string{"memory warning n0"}},
		"memory is used up":            {memory("100", "0"), []string{"memory error n0"}},
		"buffers do not count":         {memory("120", "40"), nil},
		"the library refuses":          {func(_ *Facts, n *Node, _ Info) { n.Refused = node.ErrMisconfigured }, []string{"usable error n0"}},
		"loading":                      {func(_ *Facts, n *Node, _ Info) { n.Refused = errors.New("LOADING Redis is loading") }, []string{"usable warning n0"}},
		"no disk for the log":          {func(_ *Facts, _ *Node, info Info) { info["aof_last_write_status"] = "err" }, []string{"persistence error n0"}},
		"no snapshot, and writes stop": {func(_ *Facts, _ *Node, info Info) { info["rdb_last_bgsave_status"] = "err" }, []string{"persistence error n0"}},
		"no snapshot, and writes go on": {func(_ *Facts, n *Node, info Info) {
			info["rdb_last_bgsave_status"] = "err"
			n.Settings["stop-writes-on-bgsave-error"] = Fact[string]{Value: "no"}
		}, []string{"persistence warning n0"}},
		"no snapshot, and no INFO field": {func(_ *Facts, n *Node, info Info) {
			info["rdb_last_bgsave_status"] = "err"
			n.Settings["stop-writes-on-bgsave-error"] = Fact[string]{Err: errDenied}
		}, []string{"persistence warning n0"}},
		"one server": {func(f *Facts, n *Node, info Info) { info["master_replid"] = "id1"; n.Marker = f.Nodes[1].Marker }, []string{"identity error n0 n1"}},
		"unmarked":   {func(_ *Facts, n *Node, _ Info) { n.Marker.Value = nil }, []string{"marker warning n0"}},
		"all unmarked": {func(f *Facts, _ *Node, _ Info) {
			for i := range f.Nodes {
				f.Nodes[i].Marker.Value = nil
			}
		}, []string{"marker warning n0 n1 n2"}},
		"restarted":         {func(_ *Facts, n *Node, _ Info) { n.Marker.Value.Identity = "before" }, []string{"marker warning n0"}},
		"recovering":        {func(_ *Facts, n *Node, _ Info) { n.Marker.Value.Left = 1 }, []string{"marker warning n0"}},
		"recovered":         {func(_ *Facts, n *Node, _ Info) { n.Marker.Value.Left = -1 }, nil},
		"no marker's type":  {func(_ *Facts, n *Node, _ Info) { n.Marker.Err = errors.New("WRONGTYPE Operation") }, []string{"marker error n0"}},
		"no fences' type":   {func(_ *Facts, n *Node, _ Info) { n.Fences = errors.New("WRONGTYPE Operation") }, []string{"marker error n0"}},
		"no fences to read": {func(_ *Facts, n *Node, _ Info) { n.Fences = errDenied }, nil},
		"no marker to read": {func(_ *Facts, n *Node, _ Info) { n.Marker.Err = errDenied }, []string{"marker unknown n0"}},
		"other limits": {func(_ *Facts, n *Node, _ Info) {
			n.Lists.Value = &wire.ListReply{Others: []wire.List{{Terms: wire.TermsFor(wire.Limits{MaxTTL: 30 * time.Second}), Addresses: []string{"n0", "n1", "n2"}, IDs: make([]string, 3)}}}
		}, []string{"lists error"}},
		"another protocol": {func(_ *Facts, n *Node, _ Info) {
			n.Lists.Value = &wire.ListReply{Others: []wire.List{{Terms: wire.Terms{Protocol: wire.Protocol + 1, Oldest: wire.Protocol + 1}, Addresses: []string{"n0"}, IDs: make([]string, 2)}}}
		}, []string{"lists error"}},

		"a replica too many":           {func(_ *Facts, _ *Node, info Info) { info["connected_slaves"] = "1" }, []string{"replication warning n0"}},
		"a Sentinel":                   {func(_ *Facts, n *Node, _ Info) { n.Sentinel = true }, []string{"replication error n0"}},
		"a slot of a cluster":          {ofCluster("1000", nil), nil},
		"a slot that fails over late":  {ofCluster("15000", nil), []string{"replication error n0"}},
		"a slot with a hidden timeout": {ofCluster("", errDenied), []string{"replication unknown n0"}},
		"a slot with a guard": {func(f *Facts, n *Node, info Info) {
			ofCluster("15000", nil)(f, n, info)
			guarded("2", "1", 2*time.Second)(f, n, info)
		}, nil},
		"a guard, and replicas to spare": {guarded("2", "1", 2*time.Second), nil},
		"a guard, and none to spare":     {guarded("1", "1", 2*time.Second), []string{"replication note n0"}},
		"a guard, and too few":           {guarded("1", "2", 2*time.Second), []string{"replication error n0"}},
		"a guard, and none at all":       {guarded("0", "1", 2*time.Second), []string{"replication error n0"}},
		"a guard that is late":           {guarded("2", "1", 2*time.Second-1), []string{"replication warning n0"}},
		"a guard that is late behind Sentinel": {func(f *Facts, n *Node, info Info) {
			guarded("2", "1", time.Second)(f, n, info)
			n.Sentinel = true
		}, []string{"replication error n0"}},
		"a guard without its INFO field": {func(f *Facts, n *Node, info Info) {
			guarded("2", "1", time.Second)(f, n, info)
			n.Settings = map[string]Fact[string]{"min-replicas-to-write": {Err: errDenied}, "min-replicas-max-lag": {Err: errDenied}}
		}, []string{"replication unknown n0"}},

		"a clock that is off by half":    {ahead(500*time.Millisecond, 0), nil},
		"a clock that is off by more":    {ahead(500*time.Millisecond+1, 0), []string{"clock warning n0"}},
		"a clock that is behind":         {ahead(-time.Second, 0), []string{"clock warning n0"}},
		"a clock that is behind too far": {ahead(-time.Second-1, 0), []string{"clock error n0"}},
		"a clock that may be behind":     {ahead(-time.Second-1, 1), []string{"clock warning n0"}},
		"a clock that is ahead":          {ahead(10*time.Second, 0), []string{"clock warning n0"}},
		"a clock that is ahead too far":  {ahead(10*time.Second+1, 0), []string{"clock error n0"}},
		"a clock that is hard to see":    {ahead(0, 501*time.Millisecond), []string{"clock unknown n0"}},
		"an unreadable clock":            {func(_ *Facts, n *Node, _ Info) { n.Clock.Err = errDenied }, []string{"clock unknown n0"}},
		"a clock of one's own":           {all(-2 * time.Second), []string{"clock error n0 n1 n2"}},
		"clocks that are apart": {func(f *Facts, _ *Node, _ Info) {
			f.Nodes[0].Clock.Value.Ahead, f.Nodes[1].Clock.Value.Ahead = 500*time.Millisecond, -500*time.Millisecond
			f.Nodes[1].Clock.Value.Ahead--
		}, []string{"clock warning n1"}},

		"slow":            {trips(1, 249, 1), nil},
		"slow at times":   {trips(1, 250, 1), []string{"round-trip warning n0"}},
		"slow in general": {trips(500, 500, 1), []string{"round-trip error n0"}},
		"no round trips":  {func(_ *Facts, n *Node, _ Info) { n.Trips, n.Clock.Err = nil, silent }, []string{"clock unknown n0", "round-trip unknown n0"}},

		"no right to lock":     {trial("+hset", rights.ForLocks, Denied), []string{"rights error n0"}},
		"no right to wait":     {trial("+zadd", rights.ForWaiting, Denied), []string{"rights warning n0"}},
		"no right to kill":     {trial("+client|kill", rights.ForOrder, Denied), []string{"rights warning n0"}},
		"no right for latches": {trial("+zcard", rights.ForLatches, Denied), []string{"rights note n0"}},
		"no such command":      {trial("+hset", rights.ForLocks, Missing), []string{"rights error n0"}},
		"an untried right":     {trial("+hset", rights.ForLocks, Untried), []string{"rights unknown n0"}},
		"no names":             {func(f *Facts, _ *Node, _ Info) { f.Names = nil }, []string{"rights unknown n0 n1 n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := with(c.change).Report()
			assert.Equal(t, c.want, found(r))
			for _, check := range r.Checks {
				for _, f := range check.Findings {
					assert.NotEmpty(t, f.Found)
					if f.Severity != Unknown {
						assert.NotEmpty(t, f.Why, f.Found)
						assert.NotEmpty(t, f.Do, f.Found)
					}
				}
			}
		})
	}
}

func memory(used, uncounted string) func(*Facts, *Node, Info) {
	return func(_ *Facts, _ *Node, info Info) {
		info["maxmemory"], info["used_memory"], info["mem_not_counted_for_evict"] = "100", used, uncounted
	}
}

// ofCluster makes a node a slot of a cluster with a cluster-node-timeout.
func ofCluster(timeout string, err error) func(*Facts, *Node, Info) {
	return func(_ *Facts, n *Node, info Info) {
		n.Tag, info["cluster_enabled"] = "ql", "1"
		n.Settings["cluster-node-timeout"] = Fact[string]{Value: timeout, Err: err}
	}
}

func guarded(good, needed string, skew time.Duration) func(*Facts, *Node, Info) {
	return func(f *Facts, n *Node, info Info) {
		info[goodReplicas] = good
		n.Settings["min-replicas-to-write"], n.Settings["min-replicas-max-lag"] = Fact[string]{Value: needed}, Fact[string]{Value: "1"}
		f.Limits.MaxClockSkew = skew
	}
}

func ahead(by, give time.Duration) func(*Facts, *Node, Info) {
	return func(_ *Facts, n *Node, _ Info) { n.Clock.Value = Offset{Ahead: by, Error: give} }
}

func all(by time.Duration) func(*Facts, *Node, Info) {
	return func(f *Facts, _ *Node, _ Info) {
		for i := range f.Nodes {
			f.Nodes[i].Clock.Value.Ahead = by
		}
	}
}

func trips(ms ...time.Duration) func(*Facts, *Node, Info) {
	return func(_ *Facts, n *Node, _ Info) {
		n.Trips = nil
		for _, d := range ms {
			n.Trips = append(n.Trips, d*time.Millisecond)
		}
	}
}

func trial(rule, purpose string, v Verdict) func(*Facts, *Node, Info) {
	return func(_ *Facts, n *Node, _ Info) {
		n.Trials = append(n.Trials, Trial{Rule: rule, For: purpose, Verdict: v, Err: errDenied})
	}
}

// TestUnknownIsNotOK: no check reports an unknown fact as OK.
func TestUnknownIsNotOK(t *testing.T) {
	aboutTheList := map[string]bool{"count": true}
	unknown := healthy()
	for i := range unknown.Nodes {
		n := &unknown.Nodes[i]
		*n = Node{Name: n.Name, Info: Fact[Info]{Err: errDenied}, Marker: Fact[*Marker]{Err: errDenied}, Clock: Fact[Offset]{Err: errDenied}, Trials: []Trial{{Rule: "+hset", Err: errDenied}}}
	}
	down := healthy()
	for i := range down.Nodes {
		down.Nodes[i] = Node{Name: down.Nodes[i].Name, Unreached: node.ErrUnreachable}
	}
	one := healthy()
	one.Nodes[2] = Node{Name: "n2", Unreached: node.ErrUnreachable}
	for _, c := range down.Report().Checks {
		assert.Equal(t, aboutTheList[c.ID], c.Severity == OK, "%s of nodes that are down", c.ID)
	}
	reachable := down.Report().Checks[1]
	require.Equal(t, "reachable", reachable.ID)
	assert.Equal(t, "0 of 3 nodes answer, and 2 are needed", reachable.Findings[1].Found)
	assert.Equal(t, []string{"n0", "n1", "n2"}, reachable.Findings[1].Nodes)
	for _, c := range one.Report().Checks {
		assert.Equal(t, aboutTheList[c.ID], c.Severity == OK, "%s of a node that is down", c.ID)
	}
	answered := map[string]bool{"count": true, "reachable": true}
	for _, c := range unknown.Report().Checks {
		assert.Equal(t, answered[c.ID], c.Severity == OK, "%s of nodes of which nothing is known", c.ID)
	}
}

// TestMerged: one finding covers all nodes that have it, and the worst finding of a check comes first.
func TestMerged(t *testing.T) {
	f := healthy()
	for i := range f.Nodes {
		evict(f.Nodes[i].Info.Value, "1048576")
		f.Nodes[i].AllowEviction = true
	}
	f.Nodes[0].Info.Value["maxmemory"] = "0"
	assert.Equal(t, []string{"eviction warning n1 n2", "eviction note n0"}, found(f.Report()))
}

// TestACLLine: the remedy for missing rights is one line for all of them.
func TestACLLine(t *testing.T) {
	f := healthy()
	for _, rule := range []string{"+hset", "~quorumlock:*", "+hset"} {
		trial(rule, rights.ForLocks, Denied)(f, &f.Nodes[1], nil)
	}
	r := f.Report()
	c := r.Checks[len(checks)-1]
	require.Equal(t, "rights", c.ID)
	assert.Equal(t, []string{"ACL SETUSER locker +hset ~quorumlock:*"}, c.Findings[0].Commands)
}

func TestUnreachable(t *testing.T) {
	for err, do := range map[error]string{
		node.ErrAuth:          "user and password",
		node.ErrTimeout:       "a server that hangs",
		node.ErrMisconfigured: "the database",
		node.ErrProtocol:      "no Redis server",
		node.ErrUnreachable:   "Start the server",
		errSentinel:           "master_set",
		errDenied:             "Grant the user the right",
	} {
		got, _ := reach(err)
		assert.Contains(t, got, do)
	}
}

func TestParseMarker(t *testing.T) {
	now := time.UnixMicro(5_000_000)
	assert.Equal(t, &Marker{Identity: "i"}, parseMarker([]string{"i", "0"}, now, time.Second))
	assert.Equal(t, 2*time.Second, parseMarker([]string{"i", "3000000"}, now, 4*time.Second).Left)
	assert.Equal(t, -time.Second, parseMarker([]string{"i", "3000000"}, now, time.Second).Left)
	for _, fields := range [][]string{{"", ""}, {"", "0"}, {"i", ""}, {"i", "x"}} {
		assert.Nil(t, parseMarker(fields, now, time.Second), fields)
	}
}

func TestBetter(t *testing.T) {
	slow, quick := Fact[Offset]{Value: Offset{Ahead: time.Minute, Error: time.Second}}, Fact[Offset]{Value: Offset{Ahead: 2 * time.Second, Error: 5 * time.Millisecond}}
	unknown := Fact[Offset]{Err: assert.AnError}
	for _, pair := range [][2]Fact[Offset]{{slow, quick}, {quick, slow}, {unknown, quick}, {quick, unknown}} {
		assert.Equal(t, quick, better(pair[0], pair[1]))
	}
	assert.Equal(t, 1995*time.Millisecond, quick.Value.Least())
	assert.Zero(t, Offset{Ahead: -1, Error: 2}.Least())
}

// TestInfo reads the fields that servers report about themselves.
func TestInfo(t *testing.T) {
	redis := parseInfo("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n# Replication\r\nrole:master\r\nslave0:ip=a,port=1\r\nmaxmemory:12\r\nx:y:z\r\n")
	assert.Equal(t, "redis 7.0.15", redis.version())
	assert.Equal(t, "master", redis.role())
	assert.EqualValues(t, 12, redis.number("maxmemory"))
	assert.Zero(t, redis.number("role"))
	assert.Zero(t, redis.number("none"))
	assert.Equal(t, "y:z", redis["x"])
	assert.Equal(t, "redict 7.3.6", parseInfo("redict_version:7.3.6\r\nredis_version:7.2.4\r\n").version())
	assert.Equal(t, "keydb 6.3.4", parseInfo("redis_version:6.3.4\r\n\r\n# KeyDB\r\nmvcc_depth:0\r\n").version())
	valkey := parseInfo("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:sentinel\r\n")
	assert.Equal(t, "valkey 8.1.1", valkey.version())
	assert.Equal(t, "sentinel", valkey.role())
	assert.Equal(t, "sentinel", Info{"redis_mode": "sentinel"}.role())
	assert.Equal(t, "replica", Info{"role": "slave"}.role())
	assert.Empty(t, Info(nil).role())
}

// TestOffsetHoldsTheTruth: wherever within the round trip the clock was read, the true offset is within the error.
func TestOffsetHoldsTheTruth(t *testing.T) {
	at := time.Unix(1000, 0)
	const trip, truth = 100 * time.Millisecond, -3 * time.Second
	for read := time.Duration(0); read <= trip; read += 10 * time.Millisecond {
		o := offset(at, at.Add(read+truth), trip)
		assert.LessOrEqual(t, (o.Ahead - truth).Abs(), o.Error)
	}
}

// TestRemedies: the commands fit the facts.
func TestRemedies(t *testing.T) {
	lag := func(f *Facts, n *Node, info Info) {
		guarded("2", "1", time.Second)(f, n, info)
		n.Settings["min-replicas-max-lag"] = Fact[string]{Value: "10"}
	}
	for want, change := range map[string]func(*Facts, *Node, Info){
		"CONFIG SET min-replicas-max-lag 1, CONFIG REWRITE":  lag,
		"CONFIG SET min-replicas-to-write 0, CONFIG REWRITE": guarded("0", "1", 2*time.Second),
		"CONFIG SET maxmemory 200, CONFIG REWRITE":           memory("100", "0"),
		"ACL SETUSER locker +zadd":                           trial("+zadd", rights.ForWaiting, Denied),
	} {
		var commands []string
		for _, c := range with(change).Report().Checks {
			for _, f := range c.Findings {
				commands = append(commands, f.Commands...)
			}
		}
		assert.Equal(t, want, strings.Join(commands, ", "))
	}
}

// Programs with another protocol keep their limits and their addresses in a form that doctor does not know, so it names the
// protocols, and nothing that it would have to guess.
func TestAnotherProtocolIsNamed(t *testing.T) {
	r := with(func(_ *Facts, n *Node, _ Info) {
		n.Lists.Value = &wire.ListReply{Others: []wire.List{{Holder: "billing-7", Terms: wire.Terms{Protocol: wire.Protocol + 1, Oldest: wire.Protocol + 1}, Addresses: []string{"n0"}, IDs: make([]string, 1)}}}
	}).Report()
	var findings []Finding
	for _, c := range r.Checks {
		if c.ID == "lists" {
			findings = c.Findings
		}
	}
	require.Len(t, findings, 1)
	assert.Equal(t, fmt.Sprintf("billing-7 speaks protocol %d; doctor speaks protocol %d", wire.Protocol+1, wire.Protocol), findings[0].Found)
	assert.NotContains(t, findings[0].Found+findings[0].Do, "MaxTTL")
}

// The command that doctor names has the recovery that doctor got, because init tells how long nodes recover.
func TestInitCommandHasTheRecovery(t *testing.T) {
	f := healthy()
	f.Limits.Longer = time.Minute
	for i := range f.Nodes {
		f.Nodes[i].Marker.Value = nil
	}
	var commands []string
	for _, c := range f.Report().Checks {
		for _, one := range c.Findings {
			commands = append(commands, one.Commands...)
		}
	}
	require.Len(t, commands, 1)
	assert.Contains(t, commands[0], " --recovery 1m0s")
}
