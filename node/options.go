package node

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// Options describe a node: the options of rueidis, and the tag if the node is a slot of a Redis Cluster.
type Options struct {
	rueidis.ClientOption
	// Tag makes the node one slot of a Redis Cluster: the slot of all keys with the hash tag {Tag}. The addresses are
	// then servers of the cluster. They need not own the slot, nor be all of the servers. All names need the hash tag,
	// so Config.Prefix of the client begins with it: see [wire.TagPrefix].
	Tag string
	// AllowEviction accepts a server that may evict locks, because it has a maxmemory and a maxmemory-policy other than
	// noeviction. It is for locks that only save work: an evicted lock is granted to another owner, while the first
	// one still relies on it. See docs/guarantees.md, assumption A5.
	AllowEviction bool
	// OnClose, if not nil, is called once when the node is closed, which returns its error. It is for adapters whose
	// credentials need an end.
	OnClose func() error
}

// ParseOptions is [ParseAddress] for addresses that may also have the query parameter tag, for a slot of a Redis
// Cluster: redis://host1:7000?addr=host2:7000&addr=host3:7000&tag=ql. See [Options].
func ParseOptions(address string) (Options, error) {
	rest, tag, err := cutTag(address)
	if err != nil {
		return Options{}, err
	}
	opt, err := ParseAddress(rest)
	return Options{ClientOption: opt, Tag: tag}, err
}

// cutTag takes the parameter tag out of an address.
func cutTag(address string) (rest, tag string, err error) {
	if !strings.Contains(address, "tag=") {
		return address, "", nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return address, "", nil // ParseAddress says what is wrong
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
func (o *Options) check() error {
	switch {
	case len(o.InitAddress) == 0:
		return errors.New("node: no address")
	case o.ReplicaOnly || o.SendToReplicas != nil || len(o.Standalone.ReplicaAddress) > 0:
		return errors.New("node: the option sends commands to replicas: only a master can keep locks")
	case o.Tag != "":
		return o.checkCluster()
	case len(o.InitAddress) > 1 && o.Sentinel.MasterSet == "":
		return fmt.Errorf("node: %d addresses for one node: list independent servers as nodes of their own; a slot of a Redis Cluster needs a tag", len(o.InitAddress))
	default:
		return nil
	}
}

func (o *Options) checkCluster() error {
	switch {
	case o.Sentinel.MasterSet != "":
		return errors.New("node: a tag is for a Redis Cluster, which has no Sentinels")
	case o.SelectDB != 0:
		return fmt.Errorf("node: database %d: a Redis Cluster has database 0 only", o.SelectDB)
	case !all(o.InitAddress, isHostPort):
		return errors.New("node: a tag is for a Redis Cluster, whose servers have addresses with host and port")
	default:
		return checkTag(o.Tag)
	}
}
