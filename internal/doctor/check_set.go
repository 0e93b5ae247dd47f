package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/node"
)

// need is the number of nodes in a majority.
func (f *Facts) need() int { return len(f.Nodes)/2 + 1 }

// names returns the names of the nodes for which is returns true.
func (f *Facts) names(is func(*Node) bool) (names []string) {
	for i := range f.Nodes {
		if is(&f.Nodes[i]) {
			names = append(names, f.Nodes[i].Name)
		}
	}
	return names
}

func isDown(n *Node) bool { return n.Unreached != nil }

func isReplica(n *Node) bool { return n.Role() == "replica" }

// notAsked is the finding of a check of the whole set for nodes that did not answer.
func (f *Facts) notAsked() []Finding {
	if down := f.names(isDown); len(down) > 0 {
		return []Finding{{Severity: Unknown, Nodes: down, Found: unreached}}
	}
	return nil
}

func checkCount(f *Facts) []Finding {
	switch n := len(f.Nodes); {
	case n%2 == 0 && !f.AllowEven:
		return []Finding{{
			Severity: Error, Found: fmt.Sprintf("%d nodes are an even number", n),
			Why: fmt.Sprintf("They survive the loss of no more nodes than %d nodes do, and programs refuse them.", n-1),
			Do:  "Add or remove a node, in the lists of all programs. Or set Config.AllowEven in all of them, and --allow-even here.",
		}}
	case n == 1:
		return []Finding{{
			Severity: Note, Found: "there is one node",
			Why: "While it is down, or recovers, no client gets a lock.", Do: "Use three or five, if that matters.",
		}}
	default:
		return nil
	}
}

func checkReachable(f *Facts) (findings []Finding) {
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Unreached != nil {
			findings = append(findings, unreachable(n.Unreached).on(n))
		}
	}
	if up := len(f.Nodes) - len(findings); up < f.need() {
		findings = append(findings, Finding{
			Severity: Error, Nodes: f.names(isDown), Found: fmt.Sprintf("%d of %d nodes answer, and %d are needed", up, len(f.Nodes), f.need()),
			Why: "Without a majority no client gets a lock, and leases end.",
			Do:  "Bring back the nodes named here, or correct their addresses.",
		})
	}
	return findings
}

// unreachable returns the finding for a node that does not answer, with advice that depends on the error.
func unreachable(err error) Finding {
	f := Finding{
		Severity: Error, Found: err.Error(),
		Why: "A node that does not answer has no vote, so the set survives the loss of fewer other nodes.",
	}
	switch text := err.Error(); {
	case errors.Is(err, errSentinel):
		f.Do = "Name the master set that it watches: redis://HOST:26379?master_set=NAME, with addr=HOST:PORT for each further Sentinel."
	case strings.Contains(text, "certificate") || strings.Contains(text, "x509"):
		f.Do = "Make this machine trust the server's certificate: name the file of its CA in $SSL_CERT_FILE, and use a host name that is in the certificate."
	case errors.Is(err, errPlain):
		f.Do = "Write redis:// instead of rediss:// in the address, or use the server's port for TLS (tls-port)."
	case errors.Is(err, node.ErrAuth):
		f.Do = "Correct user and password in the address, redis://user:password@host:port (special characters as %XX); or create the user as docs/servers.md says."
		f.Commands = []string{"ACL LIST"}
	case errors.Is(err, node.ErrTimeout):
		f.Do = "The address accepts connections and does not answer: a server that hangs, a firewall that drops packets, or a port with TLS (rediss://). " +
			"Look at the server, and at its log."
	case errors.Is(err, node.ErrMisconfigured):
		f.Do = "Correct the database in the address, or the server's protected-mode and bind."
	case errors.Is(err, node.ErrProtocol):
		f.Do = "Correct the address: no Redis server listens there."
	default:
		f.Do = "Start the server, or correct the address; look at its bind, protected-mode and port, and at firewalls between it and this machine."
	}
	return f
}

func checkIdentity(f *Facts) []Finding {
	findings := f.notAsked()
	seen := make(map[string]*Node)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Unreached != nil {
			continue
		}
		if !n.Info.Known() {
			findings = append(findings, unknown(n.Info.Err, "INFO").on(n))
			continue
		}
		id := n.Info.Value["master_replid"]
		switch first, twice := seen[id], seen[id] != nil; {
		case id == "":
			findings = append(findings, Finding{
				Severity: Error, Found: "INFO has no master_replid",
				Why: "The library notices by it that a server restarted, and may have forgotten locks. So it refuses the server.",
				Do:  "Use Redis 6.2.7 or later, or Valkey, without a proxy.",
			}.on(n))
		case twice && !isReplica(n) && !isReplica(first):
			findings = append(findings, Finding{
				Severity: Error, Nodes: []string{first.Name, n.Name}, Found: "two addresses lead to one server",
				Why: "It has one vote, and the set is smaller than it looks: it survives the loss of fewer servers.",
				Do:  "Correct the list of nodes, in all programs: each must be a server of its own.",
			})
		case !twice:
			seen[id] = n
		}
	}
	return findings
}

// compared are fields of INFO that are equal on servers with the same setup.
var compared = []struct {
	field, name string
	// words translates values that are codes.
	words map[string]string
}{
	{"redis_version", "the version", nil},
	{"aof_enabled", "appendonly", map[string]string{"0": "no", "1": "yes"}},
	{"maxmemory", "maxmemory", nil},
	{"connected_slaves", "the number of replicas", nil},
}

func checkAlike(f *Facts) []Finding {
	findings := f.notAsked()
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Unreached == nil && !n.Info.Known() {
			findings = append(findings, unknown(n.Info.Err, "INFO").on(n))
		}
	}
	for _, c := range compared {
		var values, said []string
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if value, ok := n.Info.Value[c.field]; ok && n.Unreached == nil {
				values = append(values, value)
				said = append(said, fmt.Sprintf("%s on %s", cmp.Or(c.words[value], value), n.Name))
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(values)))) > 1 {
			findings = append(findings, Finding{
				Severity: Note, Found: c.name + " differs: " + strings.Join(said, ", "),
				Why: "Nothing breaks. But differences between servers of one set are mostly mistakes.",
				Do:  "Configure them alike, or ignore this if the difference is intended.",
			})
		}
	}
	return findings
}
