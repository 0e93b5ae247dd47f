package node

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// ParseAddress turns an address into rueidis' options, without touching the network.
// It takes host:port, a bare host (port 6379), a path to a unix socket, and the URLs
// redis://, rediss:// (TLS) and unix://, with user, password, database number and the
// query parameters that [rueidis.ParseURL] knows (master_set and addr for Sentinel,
// among others). Errors do not repeat the address, as it may hold a password.
func ParseAddress(address string) (rueidis.ClientOption, error) {
	switch {
	case address == "":
		return rueidis.ClientOption{}, fmt.Errorf("node: empty address")
	case strings.ContainsAny(address, " \t\r\n"):
		return rueidis.ClientOption{}, fmt.Errorf("node: white space in an address")
	case strings.HasPrefix(address, "/"):
		address = "unix://" + address
	case !strings.Contains(address, "://"):
		return parseHostPort(address)
	}
	opt, err := rueidis.ParseURL(address)
	if err != nil {
		return opt, fmt.Errorf("node: %s address does not parse: want redis://user:password@host:port/db, rediss://... or unix:///path", scheme(address))
	}
	return opt, nil
}

// parseHostPort reads host:port, [v6]:port, or a host alone.
func parseHostPort(address string) (rueidis.ClientOption, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = strings.Trim(address, "[]"), "6379"
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" || strings.ContainsAny(host+port, "/@?#") {
		return rueidis.ClientOption{}, fmt.Errorf("node: address does not parse: want host:port or a redis:// URL")
	}
	return rueidis.ClientOption{InitAddress: []string{net.JoinHostPort(host, port)}}, nil
}

// scheme is the part of a URL that is safe to repeat.
func scheme(address string) string {
	s, _, _ := strings.Cut(address, "://")
	return s + "://"
}

// nameOf names the deployment that options lead to: the same for every user,
// password and database number, as those share one server and fail together.
func nameOf(opt rueidis.ClientOption) string {
	addresses := slices.Clone(opt.InitAddress)
	for i, a := range addresses {
		if !strings.HasPrefix(a, "/") { // the path of a socket
			addresses[i] = strings.ToLower(a)
		}
	}
	slices.Sort(addresses)
	name := strings.Join(addresses, ",")
	if opt.Sentinel.MasterSet != "" {
		return opt.Sentinel.MasterSet + "@" + name
	}
	return name
}
