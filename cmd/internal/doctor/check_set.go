package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

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
	case isDenied(err):
		return "Grant the user the right that the error names, as an administrator: by ACL SETUSER, and then ACL SAVE or CONFIG REWRITE.", nil
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
		case id == "": // the library refuses the server
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
