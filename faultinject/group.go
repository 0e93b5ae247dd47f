package faultinject

import (
	"errors"
	"slices"
	"strconv"
	"sync"
)

// Group is servers that were started together.
type Group struct{ servers []Server }

// StartGroup starts n servers in parallel, named n1 to n<n>. It returns once all have started, or have all been
// closed again because one failed.
func StartGroup(n int, start func(name string) (Server, error)) (*Group, error) {
	servers, errs := make([]Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = start("n" + strconv.Itoa(i+1)) })
	}
	wg.Wait()
	g := new(Group)
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
func (g *Group) Servers() []Server { return slices.Clone(g.servers) }

// Close closes all servers. It may be called more than once.
func (g *Group) Close() error {
	errs := make([]error, len(g.servers))
	var wg sync.WaitGroup
	for i, s := range g.servers {
		wg.Go(func() { errs[i] = s.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
