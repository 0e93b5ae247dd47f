package node

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// errAddress does not repeat the address: it may hold a password, even in the wrong place.
var errAddress = errors.New("node: address does not parse: want host:port, /path/of/socket, redis://user:password@host:port/db, rediss://... or unix:///path (special characters of a password as %XX)")

// parseAddress turns an address into rueidis' options: see [ParseOptions]. It knows no tag.
func parseAddress(address string) (rueidis.ClientOption, error) {
	switch {
	case address == "":
		return rueidis.ClientOption{}, errors.New("node: empty address: is the list of nodes empty, or does it end with a comma?")
	case strings.ContainsAny(address, " \t\r\n"):
		return rueidis.ClientOption{}, errors.New("node: white space in an address")
	case isSocket(address):
		return parseURL(&url.URL{Scheme: "unix", Path: address})
	case !strings.Contains(address, "://") && strings.Contains(address, ","):
		return rueidis.ClientOption{}, errors.New("node: several addresses in one")
	case !strings.Contains(address, "://"):
		return parseHostPort(address)
	}
	u, err := url.Parse(address)
	if err != nil {
		return rueidis.ClientOption{}, errAddress
	}
	return parseURL(u)
}

// parseHostPort reads host:port, [v6]:port, or a host alone.
func parseHostPort(address string) (rueidis.ClientOption, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "6379"
		if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
			host = host[1 : len(host)-1]
		}
	} else if host == "" {
		host = "localhost"
	}
	address = net.JoinHostPort(host, port)
	if !isHostPort(address) {
		return rueidis.ClientOption{}, errAddress
	}
	return rueidis.ClientOption{InitAddress: []string{address}}, nil
}

// parseURL is stricter than the function of that name in rueidis: if a password has a character that should
// have been escaped, part of it can end up anywhere.
func parseURL(u *url.URL) (rueidis.ClientOption, error) {
	if !isDeployment(u) {
		return rueidis.ClientOption{}, errAddress
	}
	if u.Scheme != "unix" {
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
	opt, err := rueidis.ParseURL(u.String())
	if err != nil || opt.SelectDB < 0 || opt.Dialer.Timeout < 0 || opt.ConnWriteTimeout < 0 {
		return rueidis.ClientOption{}, errAddress
	}
	if u.Scheme != "unix" && !all(opt.InitAddress, isHostPort) {
		return rueidis.ClientOption{}, errAddress
	}
	return opt, nil
}

// parameters are the query parameters that rueidis reads.
var parameters = []string{
	"addr", "client_cache", "client_name", "db", "dial_timeout", "master_set", "max_retries", "protocol", "skip_verify", "write_timeout",
}

func isDeployment(u *url.URL) bool {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return false
	}
	for name := range query {
		if !slices.Contains(parameters, name) {
			return false
		}
	}
	if u.Scheme == "unix" {
		return u.Host == "" && strings.HasPrefix(u.Path, "/")
	}
	return slices.Contains([]string{"redis", "rediss", "valkey", "valkeys"}, u.Scheme)
}

// isHostPort reports whether an address is a host name or IP address, and a port.
func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "/@?#[] ") {
		return false
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return false
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// isSocket reports whether an address is the path of a Unix socket.
func isSocket(address string) bool { return strings.HasPrefix(address, "/") }

func all(addresses []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !ok(a) })
}

// nameOf returns the name of the deployment that the options lead to. User, password and database number do
// not matter: all of them share one server and fail together.
func nameOf(opt rueidis.ClientOption) string {
	addresses := slices.Clone(opt.InitAddress)
	for i, a := range addresses {
		if !isSocket(a) {
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
