package doctor

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

func (j *judge) count() {
	switch n := len(j.Nodes); {
	case n%2 == 0 && !j.AllowEven:
		j.find(nil, Error, fmt.Sprintf("%d nodes are an even number", n),
			fmt.Sprintf("They survive the loss of no more nodes than %d nodes do, and programs refuse them.", n-1),
			"Add or remove a node, in the lists of all programs. Or set Config.AllowEven in all of them, and --allow-even here.")
	case n == 1:
		j.find(nil, Note, "there is one node", "While it is down, or recovers, no client gets a lock.", "Use three or five, if that matters.")
	}
}

func (j *judge) reachable() {
	var down []string
	for i := range j.Nodes {
		if n := &j.Nodes[i]; n.Unreached != nil {
			down = append(down, n.Name)
			do, commands := reach(n.Unreached)
			j.find(n, Error, n.Unreached.Error(),
				"A node that does not answer has no vote, so the set survives the loss of fewer other nodes.", do, commands...)
		}
	}
	need := len(j.Nodes)/2 + 1
	if up := len(j.Nodes) - len(down); up < need {
		j.find(nil, Error, fmt.Sprintf("%d of %d nodes answer, and %d are needed", up, len(j.Nodes), need),
			"Without a majority no client gets a lock, and leases end.",
			"Bring back the nodes named here, or correct their addresses.")
		j.findings[len(j.findings)-1].Nodes = down
	}
}

// reach says how to reach a node that does not answer.
func reach(err error) (do string, commands []string) {
	var invalid x509.CertificateInvalidError
	switch text := err.Error(); {
	case errors.Is(err, errSentinel):
		return "Name the master set that it watches: redis://HOST:26379?master_set=NAME, with addr=HOST:PORT for each further Sentinel.", nil
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "Renew the server's certificate, and let the server load it by CONFIG SET, without a restart. If the certificate's dates are right, " +
			"correct the clock of this machine.", []string{"CONFIG GET tls-*-file", "CONFIG SET tls-cert-file FILE tls-key-file FILE"}
	case errors.As(err, new(x509.HostnameError)):
		return "Use a host name in the address that is in the certificate. Or issue a certificate that has this name, or this IP address, as a " +
			"subject alternative name, and let the server load it.", []string{"CONFIG SET tls-cert-file FILE tls-key-file FILE"}
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "Make this machine trust the server's certificate: name the file of its CA in $SSL_CERT_FILE.", nil
	case strings.Contains(text, "certificate") || strings.Contains(text, "x509"):
		return "If the server demands a certificate of its clients (tls-auth-clients), turn that off: an address has no place for one " +
			"(docs/security.md). Otherwise correct the server's certificate.", []string{"CONFIG GET tls-auth-clients"}
	case errors.Is(err, errPlain):
		return "Write redis:// instead of rediss:// in the address, or use the server's port for TLS (tls-port).", nil
	case errors.Is(err, node.ErrAuth):
		return "Correct user and password in the address, redis://user:password@host:port (special characters as %XX); or create the user as docs/servers.md says.",
			[]string{"ACL LIST"}
	case errors.Is(err, node.ErrTimeout):
		return "The address accepts connections and does not answer: a server that hangs, a firewall that drops packets, or a port with TLS (rediss://). " +
			"Look at the server, and at its log.", nil
	case errors.Is(err, node.ErrMisconfigured):
		return "Correct the database in the address, or the server's protected-mode and bind.", nil
	case errors.Is(err, node.ErrProtocol):
		return "Correct the address: no Redis server listens there.", nil
	default:
		return "Start the server, or correct the address; look at its bind, protected-mode and port, and at firewalls between it and this machine.", nil
	}
}

func (j *judge) identity() {
	seen := make(map[string]*Node)
	for _, n := range j.nodes {
		id := n.Info.Value["master_replid"]
		switch first := seen[id]; {
		case id == "":
			j.find(n, Error, "INFO has no master_replid",
				"The library notices by it that a server restarted, and may have forgotten locks. So it refuses the server.",
				"Use Redis 6.2.7 or later, or Valkey, without a proxy.")
		case first == nil:
			seen[id] = n
		case !n.isReplica() && !first.isReplica():
			for _, twin := range []*Node{first, n} {
				j.find(twin, Error, "two addresses lead to one server",
					"It has one vote, and the set is smaller than it looks: it survives the loss of fewer servers.",
					"Correct the list of nodes, in all programs: each must be a server of its own.")
			}
		}
	}
}

// alike compares fields of INFO that are equal on servers with the same setup.
func (j *judge) alike() {
	for _, c := range []struct {
		field, name string
		// words translates values that are codes.
		words map[string]string
	}{
		{"redis_version", "the version", nil},
		{"aof_enabled", "appendonly", map[string]string{"0": "no", "1": "yes"}},
		{"maxmemory", "maxmemory", nil},
		{"connected_slaves", "the number of replicas", nil},
	} {
		var values, said []string
		for _, n := range j.nodes {
			if value, ok := n.Info.Value[c.field]; ok {
				values = append(values, value)
				said = append(said, fmt.Sprintf("%s on %s", cmp.Or(c.words[value], value), n.Name))
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(values)))) > 1 {
			j.find(nil, Note, c.name+" differs: "+strings.Join(said, ", "),
				"Nothing breaks. But differences between servers of one set are mostly mistakes.",
				"Configure them alike, or ignore this if the difference is intended.")
		}
	}
}

// clockWhy explains why clocks matter.
const clockWhy = "Fencing tokens are made of time, and keys on the nodes expire by time. A node refuses programs whose clock is ahead of its own by more " +
	"than MaxClockSkew, or behind by MaxTTL."

// clocks compares the nodes' clocks with each other, and with the clock of this machine. Two clocks that are
// MaxClockSkew apart cannot both be within half of it of a third. So each is compared with this machine's clock
// alone.
func (j *judge) clocks() {
	var told []*Node
	for _, n := range j.nodes {
		switch {
		case !n.Clock.Known():
			j.unknown(n, n.Clock.Err, "TIME")
		case n.Clock.Value.Error > j.Limits.MaxClockSkew/2:
			j.unknown(n, nil, "answers are slow, so its clock is known only to within %v", rounded(n.Clock.Value.Error))
		default:
			told = append(told, n)
		}
	}
	if j.ownClock(told) {
		return
	}
	for _, n := range told {
		o := n.Clock.Value
		if severity := j.severityOf(o); severity != OK {
			j.find(n, severity, fmt.Sprintf("the clock is %s this machine's; MaxClockSkew is %v", o, j.Limits.MaxClockSkew), clockWhy,
				"Correct the clock of the server's machine, by slewing: a step makes locks expire early, or late. If a step is necessary, stop the server first, "+
					"and start it afterwards.", "chronyc tracking")
		}
	}
}

// ownClock reports whether all nodes agree with each other, but not with this machine.
func (j *judge) ownClock(told []*Node) bool {
	if len(told) < 2 || spread(told) > j.Limits.MaxClockSkew/2 {
		return false
	}
	nearest := slices.MinFunc(told, func(a, b *Node) int { return cmp.Compare(a.Clock.Value.Ahead.Abs(), b.Clock.Value.Ahead.Abs()) }).Clock.Value
	severity := j.severityOf(nearest)
	if severity == OK {
		return false
	}
	j.find(nil, severity, fmt.Sprintf("the nodes agree on the time, and are %s this machine; MaxClockSkew is %v", nearest, j.Limits.MaxClockSkew),
		clockWhy, "Correct the clock of this machine. Programs may run on while it is stepped.", "chronyc tracking")
	return true
}

// spread is the smallest possible distance between the nodes' clocks.
func spread(nodes []*Node) time.Duration {
	var least, most []time.Duration
	for _, n := range nodes {
		o := n.Clock.Value
		least, most = append(least, o.Ahead-o.Error), append(most, o.Ahead+o.Error)
	}
	return max(0, slices.Max(least)-slices.Min(most))
}

// severityOf rates an offset. A node refuses clients that are ahead of it by more than MaxClockSkew, or behind by
// more than MaxTTL. Half of MaxClockSkew is close enough for a warning.
func (j *judge) severityOf(o Offset) Severity {
	switch {
	case o.Ahead < 0 && o.Least() > j.Limits.MaxClockSkew, o.Ahead > 0 && o.Least() > j.Limits.MaxTTL:
		return Error
	case o.Ahead.Abs() > j.Limits.MaxClockSkew/2:
		return Warning
	default:
		return OK
	}
}

// String formats direction, distance and error.
func (o Offset) String() string {
	direction := "ahead of"
	if o.Ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("%v (±%v) %s", rounded(o.Ahead.Abs()), rounded(o.Error), direction)
}

// rounded rounds a time to about three digits.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// roundUp makes a time readable, and never shorter.
func roundUp(d time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return (d + unit - 1).Truncate(unit)
}
