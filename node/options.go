package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Options describe a node. The zero value of each field but Addresses means its default.
type Options struct {
	// Addresses lead to the node: host:port, or the path of a Unix socket, for one server; the Sentinels of MasterName; or,
	// with a Tag, servers of a Redis Cluster. These need not own the slot, nor be all of the servers.
	Addresses []string
	// Username and Password authenticate at the server. Credentials, if not nil, is asked for them instead, at each
	// connect: for passwords that change.
	Username, Password string
	Credentials        func() (username, password string, err error)
	// Database is the number of the database.
	Database int
	// TLS, if not nil, makes the connections use TLS.
	TLS *tls.Config
	// MasterName makes the node the master that Sentinels know by this name.
	MasterName string
	// Tag makes the node one slot of a Redis Cluster: the slot of all keys with the hash tag {Tag}. All names need that
	// hash tag, so the client puts it before Config.Prefix, unless the prefix has it.
	Tag string
	// ConnectTimeout bounds each step of a connect, and Timeout an exchange with the server; a call makes at most two.
	// Timeout should be well below the TTL of the locks. Defaults: 1 s.
	ConnectTimeout, Timeout time.Duration
	// ClientName is the name of the connections in CLIENT LIST. Default: quorumlock.
	ClientName string
	// RESP2 makes the connections use version 2 of the protocol.
	RESP2 bool
	// AllowEviction accepts a server that may evict locks, because it has a maxmemory and a maxmemory-policy other than
	// noeviction. It is for locks that only save work: an evicted lock is granted to another owner, while the first
	// one still relies on it. See docs/guarantees.md, assumption A5.
	AllowEviction bool
	// AllowUnseenLosses accepts a server that shows scripts no identity, as most managed services of Redis Enterprise do:
	// it cannot tell that it has restarted, or failed over, with data from before. It is for locks that only save work.
	// It changes nothing on a server that can tell. See docs/guarantees.md, assumption A5.
	AllowUnseenLosses bool
	// Rueidis, if not nil, changes the options of the client library, such as its dialler and the credentials of Sentinels.
	// Options that would add connections, replace one, or repeat commands are overruled.
	Rueidis func(*rueidis.ClientOption)
	// OnClose, if not nil, is called once when the node is closed, which returns its error. It is for adapters whose
	// credentials need an end.
	OnClose func() error
}

// client returns the options of rueidis.
func (o *Options) client() rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress: slices.Clone(o.Addresses), Username: o.Username, Password: o.Password, SelectDB: o.Database, TLSConfig: o.TLS,
		Sentinel: rueidis.SentinelOption{MasterSet: o.MasterName}, Dialer: net.Dialer{Timeout: o.ConnectTimeout}, ConnWriteTimeout: o.Timeout,
		ClientName: o.ClientName, AlwaysRESP2: o.RESP2,
	}
	if ask := o.Credentials; ask != nil {
		c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			username, password, err := ask()
			return rueidis.AuthCredentials{Username: username, Password: password}, err
		}
	}
	if len(o.Addresses) == 1 && isSocket(o.Addresses[0]) {
		c.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if o.Rueidis != nil {
		o.Rueidis(&c)
	}
	return c
}

// ParseOptions turns an address into options, without touching the network. It accepts host:port, a
// bare host (port 6379), the path of a Unix socket, and URLs: redis://, rediss:// (TLS) and unix://, with
// user, password, database number and the query parameters of [rueidis.ParseURL], such as master_set and addr
// for Sentinel. A URL may also have the parameter tag, for a slot of a Redis
// Cluster: redis://host1:7000?addr=host2:7000&addr=host3:7000&tag=ql. Errors do not repeat the address, since it may
// hold a password.
func ParseOptions(address string) (Options, error) {
	rest, tag, err := cutTag(address)
	if err != nil {
		return Options{}, err
	}
	c, err := parseAddress(rest)
	if err != nil {
		return Options{}, err
	}
	return Options{
		Addresses: c.InitAddress, Username: c.Username, Password: c.Password, Database: c.SelectDB, TLS: c.TLSConfig,
		MasterName: c.Sentinel.MasterSet, Tag: tag, ConnectTimeout: c.Dialer.Timeout, Timeout: c.ConnWriteTimeout,
		ClientName: c.ClientName, RESP2: c.AlwaysRESP2,
	}, nil
}

// cutTag takes the parameter tag out of an address.
func cutTag(address string) (rest, tag string, err error) {
	if !strings.Contains(address, "tag=") {
		return address, "", nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return address, "", nil // parseAddress says what is wrong
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || !query.Has("tag") {
		return address, "", nil
	}
	if len(query["tag"]) != 1 {
		return "", "", errors.New("node: an address has one tag at most")
	}
	tag = query.Get("tag")
	if err := checkTag(tag); err != nil {
		return "", "", err
	}
	query.Del("tag")
	u.RawQuery = query.Encode()
	return u.String(), tag, nil
}

// check returns an error for options that do not describe one deployment.
func check(o *rueidis.ClientOption, tag string) error {
	switch {
	case len(o.InitAddress) == 0:
		return errors.New("node: no address")
	case o.ReplicaOnly || o.SendToReplicas != nil || len(o.Standalone.ReplicaAddress) > 0:
		return errors.New("node: the option sends commands to replicas: only a master can keep locks")
	case tag != "":
		return checkCluster(o, tag)
	case len(o.InitAddress) > 1 && o.Sentinel.MasterSet == "":
		return fmt.Errorf("node: %d addresses for one node: list independent servers as nodes of their own; a slot of a Redis Cluster needs a tag", len(o.InitAddress))
	default:
		return nil
	}
}

func checkCluster(o *rueidis.ClientOption, tag string) error {
	switch {
	case o.Sentinel.MasterSet != "":
		return errors.New("node: a tag is for a Redis Cluster, which has no Sentinels")
	case o.SelectDB != 0:
		return fmt.Errorf("node: database %d: a Redis Cluster has database 0 only", o.SelectDB)
	case !all(o.InitAddress, isHostPort):
		return errors.New("node: a tag is for a Redis Cluster, whose servers have addresses with host and port")
	default:
		return checkTag(tag)
	}
}
