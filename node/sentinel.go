package node

import (
	"net"

	"github.com/redis/rueidis"
)

// A Sentinel has users of its own. rueidis calls AuthCredentialsFn for connections to Sentinels and to masters alike.
// So the dialler marks connections to Sentinels by their address, which rueidis passes on.

// sentinelAddr is the address of a Sentinel.
type sentinelAddr struct{ net.Addr }

// sentinelConn is a connection to a Sentinel.
type sentinelConn struct{ net.Conn }

// RemoteAddr returns the address as a sentinelAddr.
func (c sentinelConn) RemoteAddr() net.Addr { return sentinelAddr{c.Conn.RemoteAddr()} }

// markSentinel gives the dialer of connections to Sentinels a Resolver that no other dialer has, and returns it. The
// Resolver finds the same addresses as the one before: net takes a zero Resolver for none.
func markSentinel(d *net.Dialer) *net.Resolver {
	mark := &net.Resolver{}
	if r := d.Resolver; r != nil {
		mark.PreferGo, mark.StrictErrors, mark.Dial = r.PreferGo, r.StrictErrors, r.Dial
	}
	d.Resolver = mark
	return mark
}

// forMaster limits the credentials of AuthCredentialsFn to connections to the master. Sentinels get the user and
// password of the Sentinel options.
func forMaster(opt *rueidis.ClientOption) {
	ask, s := opt.AuthCredentialsFn, opt.Sentinel
	if ask == nil {
		return
	}
	opt.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if _, ok := c.Address.(sentinelAddr); ok {
			return rueidis.AuthCredentials{Username: s.Username, Password: s.Password}, nil
		}
		return ask(c)
	}
}
