package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func (j *judge) marker(n *Node) {
	if n.isReplica() {
		return // its data is its master's
	}
	if isWrongType(n.Fences) {
		j.strange(n, wire.FencesKey(n.Tag), wire.MarkerKey(n.Tag))
	}
	switch m := n.Marker; {
	case isWrongType(m.Err):
		j.strange(n, wire.MarkerKey(n.Tag))
	case !m.Known():
		j.unknown(n, m.Err, "the marker of the node")
	case m.Value == nil:
		j.unmarked(n)
	case n.Unseen != "" && !strings.HasPrefix(m.Value.Identity, wire.UnseenIdentity):
		j.find(n, Error, "the marker has an identity of the server, which this program cannot see", "The node gives it no locks, as other programs may see what it does not.",
			"Give all programs the same way to the server. If no program uses it, delete the marker: the node then recovers.", "DEL "+wire.MarkerKey(n.Tag))
	case n.Unseen == "" && !n.Info.Known():
		j.unknown(n, n.Info.Err, "whether the server restarted")
	case n.Unseen == "" && m.Value.Identity != n.Info.Value["master_replid"]:
		j.find(n, Warning, fmt.Sprintf("the server restarted, failed over, or got its first replica; it gives no new locks for %v from the first attempt on",
			j.Limits.Recovery()),
			"It may have forgotten locks that are still held.",
			"Wait, and do not run quorumlock init. Find the cause, if it was not you (docs/on-call.md, \"Unexplained recoveries\").")
	case m.Value.Left > 0:
		j.find(n, Warning, fmt.Sprintf("the node recovers, and gives no new locks for another %v", text.Span(m.Value.Left)),
			"It is new, or may have forgotten locks that are still held.",
			"Wait: the recovery ends by itself. Find out why the server restarted or was flushed, if it was not you.")
	}
}

// strange reports a key of another type at the name of the marker or the fences. The fences are deleted together with
// the marker: without it, the node waits until every token that it has forgotten is too old to be repeated.
func (j *judge) strange(n *Node, key string, together ...string) {
	what := "this key"
	if len(together) > 0 {
		what += " together with the marker"
	}
	j.find(n, Error, "the key "+key+" was not written by the library",
		"Another program wrote it, so the node can give no locks.",
		"Find out which program writes to keys that begin with quorumlock:, and delete "+what+". Then the node recovers, and opens by itself.",
		strings.Join(append([]string{"DEL", key}, together...), " "))
}

// isWrongType reports whether a server refused a command because the key has another type.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// unmarked reports a node without a marker: a new one, if all are like that.
func (j *judge) unmarked(n *Node) {
	do, commands := "If no server was ever in use, open them once all of them answer. Otherwise wait: they open by themselves.",
		[]string{initCommand(j.Limits)}
	isMarked := func(n Node) bool { return n.Unreached == nil && n.Marker.Known() && n.Marker.Value != nil }
	if slices.ContainsFunc(j.Nodes, isMarked) {
		do, commands = "Wait, and do not run quorumlock init: other nodes were in use.", nil
	}
	j.find(n, Warning,
		fmt.Sprintf("the node has no marker (the key quorumlock:node); it gives no locks for %v from the first attempt on", j.Limits.Recovery()),
		"It is new, or has lost its memory; it cannot tell which. So it waits until every lock that it may have forgotten has expired.", do, commands...)
}

func initCommand(l node.Limits) string {
	command := fmt.Sprintf("quorumlock init --max-ttl %v --max-clock-skew %v", l.MaxTTL, l.MaxClockSkew)
	if l.Longer > 0 {
		command += fmt.Sprint(" --recovery ", l.Longer)
	}
	return command
}

// goodReplicas is a field of INFO that exists only if min-replicas-to-write is set.
const goodReplicas = "min_slaves_good_slaves"

// replication looks for masters that would continue to confirm writes when they are cut off, while one of their
// replicas is promoted.
func (j *judge) replication(n *Node) {
	info := n.Info.Value
	_, guarded := info[goodReplicas]
	switch {
	case info.role() != "master": // the library refuses the server
	case guarded:
		j.goodReplicas(n)
		j.lag(n)
	case n.Tag != "":
		j.cluster(n)
	case n.Sentinel || info.number("connected_slaves") > 0:
		j.find(n, n.danger(), "the server has replicas, or Sentinels watch it, and min-replicas-to-write is 0",
			"A master that is cut off from its replicas goes on giving locks while one of them is promoted. Then two clients could hold one lock.",
			"The nodes need no replicas: remove them, if no other program needs them. Otherwise set this on the replicas too, and in their "+
				"configuration files. Set MaxClockSkew to 2s or more, and have two replicas (docs/servers.md, \"Behind Sentinel\").",
			"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 1", rewrite)
	}
}

// danger rates the risk of two masters. A Sentinel and a cluster promote replicas, so they raise the risk.
func (n *Node) danger() Severity {
	if n.Sentinel || n.Tag != "" {
		return Error
	}
	return Warning
}

func (n *Node) setting(name string) (int64, error) {
	s := n.Settings[name]
	if !s.Known() {
		return 0, s.Err
	}
	return strconv.ParseInt(s.Value, 10, 32)
}

// cluster judges how long an owner of a slot that is cut off goes on giving locks. It stops by itself after one and a
// half times the timeout, and its replica is promoted after the timeout at the earliest.
func (j *judge) cluster(n *Node) {
	const name = "cluster-node-timeout"
	ms, err := n.setting(name)
	timeout, skew := time.Duration(ms)*time.Millisecond, j.Limits.MaxClockSkew
	switch {
	case err != nil:
		j.unknown(n, err, "%s, which must be at most MaxClockSkew (%v)", name, skew)
	case timeout > skew:
		j.find(n, Error, fmt.Sprintf("%s is %v, and MaxClockSkew is %v", name, timeout, skew),
			"An owner of the slot that is cut off goes on giving locks for a while after its replica is promoted. MaxClockSkew must be at least "+
				"the timeout. Otherwise the new owner can give a lock again that the old one gave last.",
			"Lower the timeout on all servers of the cluster, in their configuration files too, or raise MaxClockSkew (docs/on-call.md, \"Changing MaxTTL or "+
				"MaxClockSkew\"). Or set min-replicas-to-write (docs/servers.md, \"Redis Cluster\").",
			fmt.Sprintf("CONFIG SET %s %d", name, skew.Milliseconds()), rewrite)
	}
}

// goodReplicas judges a master that refuses writes without replicas.
func (j *judge) goodReplicas(n *Node) {
	needed, err := n.setting("min-replicas-to-write")
	if err != nil {
		needed = 1 // at least
	}
	switch good := n.Info.Value.number(goodReplicas); {
	case good < needed:
		j.find(n, Error, fmt.Sprintf("%d replicas keep up, and min-replicas-to-write demands %d", good, needed),
			"A master without its replicas accepts no writes, so it gives no locks.",
			"Bring the replicas back. If the server needs no replicas, and no Sentinel watches it, turn the setting off.",
			"CONFIG SET min-replicas-to-write 0", rewrite)
	case good == needed:
		j.find(n, Note, fmt.Sprintf("%d replicas keep up, as many as min-replicas-to-write demands", good),
			"When one of them is lost, or promoted, the master gives no locks.", "Add a replica.")
	}
}

// lag judges whether such a master stops before its successor begins.
func (j *judge) lag(n *Node) {
	// The lag to recommend, and the MaxClockSkew that it requires.
	const short, least = 1, 2 * time.Second
	lag, err := n.setting("min-replicas-max-lag")
	skew := j.Limits.MaxClockSkew
	if err != nil {
		j.unknown(n, err, "min-replicas-max-lag, which must be a second less than MaxClockSkew (%v)", skew)
		return
	}
	if skew >= time.Duration(lag+1)*time.Second {
		return
	}
	do := fmt.Sprintf("Lower the lag to %d s, on the replicas too. MaxClockSkew must then be at least %v.", short, least)
	var commands []string
	if lag > short {
		commands = []string{fmt.Sprintf("CONFIG SET min-replicas-max-lag %d", short), rewrite}
	}
	if skew < least {
		do += " Raise it as docs/on-call.md says under \"Changing MaxTTL or MaxClockSkew\"."
	}
	j.find(n, n.danger(), fmt.Sprintf("min-replicas-max-lag is %d s, and MaxClockSkew is %v", lag, skew),
		"A master that is cut off gives locks for the lag and a second more. MaxClockSkew must be at least that long. Otherwise the "+
			"new master can give a lock again that the old one gave last.", do, commands...)
}

// clock compares the node's clock with this machine's. A node refuses clients that are ahead of it by more than
// MaxClockSkew, or behind by more than MaxTTL. Half of MaxClockSkew is close enough for a warning: two clocks that are
// MaxClockSkew apart cannot both be within half of it of a third.
func (j *judge) clock(n *Node) {
	o, skew := n.Clock.Value, j.Limits.MaxClockSkew
	severity, found := Error, ""
	switch {
	case !n.Clock.Known():
		j.unknown(n, n.Clock.Err, "TIME")
		return
	case o.Error > skew/2:
		j.unknown(n, nil, "answers are slow, so its clock is known only to within %v", text.Rounded(o.Error))
		return
	case o.Ahead < 0 && o.Least() > skew:
		found = fmt.Sprintf("the clock is behind this machine's by more than MaxClockSkew (%v)", skew)
	case o.Ahead > 0 && o.Least() > j.Limits.MaxTTL:
		found = fmt.Sprintf("the clock is ahead of this machine's by more than MaxTTL (%v)", j.Limits.MaxTTL)
	case o.Ahead.Abs() > skew/2:
		severity, found = Warning, fmt.Sprintf("the clock differs from this machine's by more than half of MaxClockSkew (%v)", skew)
	default:
		return
	}
	j.find(n, severity, found,
		"Fencing tokens are made of time, and keys on the nodes expire by time. A node refuses programs whose clock is ahead of its own by more "+
			"than MaxClockSkew, or behind by MaxTTL.",
		"If all nodes are off alike, correct the clock of this machine; programs may run on meanwhile. Otherwise correct the clock of the server's "+
			"machine, by slewing: a step makes locks expire early, or late. If a step is necessary, stop the server first, and start it afterwards.",
		"chronyc tracking")
}

// trips compares round trips with the programs' timeout.
func (j *judge) trips(n *Node) {
	usual, slowest, ok := n.roundTrips()
	severity := Warning
	switch {
	case !ok:
		j.unknown(n, n.Clock.Err, "round trips")
		return
	case usual >= j.Timeout:
		severity = Error
	case slowest < j.Timeout/2:
		return
	}
	j.find(n, severity,
		fmt.Sprintf("an answer takes %v, and %v at worst of %d; programs wait for %v", text.Rounded(usual), text.Rounded(slowest), len(n.Trips), j.Timeout),
		"An answer that comes too late does not count, and its effects are undone.",
		fmt.Sprintf("Find out what is slow: the network, a busy server, swapping, or forks. If the delay is normal, raise NodeTimeoutMax "+
			"(--node-timeout) to %s, in all programs, with TTLs of at least three times that.", text.Span(4*slowest)),
		"SLOWLOG GET 10", "LATENCY LATEST")
}

// rights reports missing rights, and the rules that grant them: the untried ones too, since to grant a right twice does
// no harm. ACL SAVE is for users in an ACL file, CONFIG REWRITE for users in the configuration.
func (j *judge) rights(n *Node) {
	for _, c := range []struct {
		purpose  string
		severity Severity
		why      string
	}{
		{rights.ForLocks, Error, "Without them the node gives no locks to this user."},
		{rights.ForWaiting, Warning, "A client that waits for a lock, or reads a shared one, gets an error from this node. All else works."},
		{rights.ForOrder, Warning, "After a connection broke, commands in flight on it cannot be stopped: a lock may be left behind for a TTL."},
		{rights.ForLatches, Note, "Latches need them; all else works."},
	} {
		missing := n.rules(c.purpose, Missing)
		missing = slices.DeleteFunc(missing, func(rule string) bool { return rule == "+info" }) // see usable
		if len(missing) > 0 {
			j.find(n, c.severity, fmt.Sprintf("the server does not know %s, which %s need", commandsOf(missing), c.purpose), c.why,
				"Remove the rename-command for them from the configuration file, and restart the server. If its version lacks them, replace the server. A managed service may permit no more: docs/where-it-runs.md says what works without.")
		}
		if denied := n.rules(c.purpose, Denied); len(denied) > 0 {
			j.find(n, c.severity, fmt.Sprintf("the user %s lacks rights for %s: %s", n.User, c.purpose, strings.Join(denied, " ")), c.why,
				"Grant them as an administrator, and save that: with ACL SAVE if the server has an ACL file, else with CONFIG REWRITE.",
				fmt.Sprintf("ACL SETUSER %s %s", n.User, strings.Join(append(denied, n.rules(c.purpose, Untried)...), " ")))
		}
	}
	if untried := n.rules("", Untried); len(untried) > 0 {
		last := slices.IndexFunc(n.Trials, func(t Trial) bool { return t.Verdict == Untried && t.Rule == untried[len(untried)-1] })
		j.unknown(n, n.Trials[last].Err, "whether the user %s has %s", n.User, strings.Join(untried, " "))
	}
	if len(j.Names) == 0 {
		j.unknown(n, nil, "whether the user may use the names of your locks: give some with --key")
	}
}

// rules returns the rules of one purpose, or of all, with the given verdict, each once.
func (n *Node) rules(purpose string, v Verdict) (rules []string) {
	for _, t := range n.Trials {
		if (purpose == "" || t.For == purpose) && t.Verdict == v && !slices.Contains(rules, t.Rule) {
			rules = append(rules, t.Rule)
		}
	}
	return rules
}

func commandsOf(rules []string) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(r, "+"), "|", " "))
	}
	return strings.Join(names, ", ")
}
