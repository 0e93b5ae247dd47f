package faultinject

import (
	"errors"
	"strconv"
	"sync"
)

// Group is servers that were started together.
type Group struct {
	servers []Server
	release func() error

	once sync.Once
	err  error
}

// StartGroup starts n servers in parallel, named n1 to n<n>. It returns once all have started, or have all been
// closed again because one failed. The function release, which may be nil, removes shared resources after the servers
// are closed.
func StartGroup(n int, start func(name string) (Server, error), release func() error) (*Group, error) {
	servers, errs := make([]Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = start("n" + strconv.Itoa(i+1)) })
	}
	wg.Wait()
	g := &Group{release: release}
	for i, s := range servers {
		if errs[i] == nil {
			g.servers = append(g.servers, s)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Servers returns the servers in the order of their names.
func (g *Group) Servers() []Server { return append([]Server(nil), g.servers...) }

// Close closes all servers, and removes their shared resources. It may be called more than once, and returns the same
// each time.
func (g *Group) Close() error {
	g.once.Do(func() {
		errs := make([]error, len(g.servers))
		var wg sync.WaitGroup
		for i, s := range g.servers {
			wg.Go(func() { errs[i] = s.Close() })
		}
		wg.Wait()
		if g.release != nil {
			errs = append(errs, g.release())
		}
		g.err = errors.Join(errs...)
	})
	return g.err
}
