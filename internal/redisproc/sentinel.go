package redisproc

import (
	"strconv"
	"testing"
	"time"
)

// Times of a Sentinel: short, so that a test sees a failover within a few seconds.
const (
	sentinelDownAfter       = time.Second
	sentinelFailoverTimeout = 3 * time.Second
)

type watched struct {
	name   string
	master *Server
}

// StartSentinel starts a Sentinel that watches the master under the given name, alone (a quorum of
// one), and closes it when the test ends. Options are for the Sentinel itself.
func StartSentinel(t testing.TB, masterName string, master *Server, opts ...Option) *Server {
	t.Helper()
	return Start(t, append(opts, func(c *config) { c.sentinel = &watched{name: masterName, master: master} })...)
}

// configure writes the part of the configuration that only a Sentinel has. The Sentinel rewrites
// the file later; Restart uses what it finds there.
func (w *watched) configure(set func(name string, value any)) {
	set("sentinel monitor", w.name+" 127.0.0.1 "+strconv.Itoa(w.master.port)+" 1")
	set("sentinel down-after-milliseconds "+w.name, sentinelDownAfter.Milliseconds())
	set("sentinel failover-timeout "+w.name, sentinelFailoverTimeout.Milliseconds())
	if pw := w.master.conf.password; pw != "" {
		set("sentinel auth-pass "+w.name, strconv.Quote(pw))
	}
}
