package sim

import (
	"context"
	"fmt"
	"sync"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// address is the address of a server, which may lead to another server for a while. Both keep their memory, and neither
// knows that it does not answer.
type address struct {
	name  string
	clock clock.Clock

	mu sync.Mutex
	// at is the server that answers, away the other one, if there is one.
	at, away *memory.Node
}

func newAddress(name string, c clock.Clock) *address {
	return &address{name: name, clock: c, at: memory.New(name, c)}
}

// server returns the server that answers.
func (a *address) server() *memory.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// move leads the address to the other server. That was set up long ago.
func (a *address) move(w *world) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away == nil {
		a.away = memory.New(a.name, a.clock)
		cfg := w.c.settingsOf(Settings{})
		cfg.Clock, cfg.Nodes = w.clock, []node.Node{a.away}
		if _, err := admin.Init(context.Background(), cfg); err != nil {
			panic(fmt.Sprintf("sim: a new server must open: %v", err))
		}
	}
	a.at, a.away = a.away, a.at
}

// Name and the other methods are those of the server that answers.
func (a *address) Name() string     { return a.name }
func (a *address) Identity() string { return a.server().Identity() }
func (a *address) Keys() []string   { return a.server().Keys() }
func (a *address) Save()            { a.server().Save() }
func (a *address) Flush()           { a.server().Flush() }
func (a *address) Crash()           { a.server().Crash() }

// Do implements [node.Node].
func (a *address) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	a.server().Do(ctx, ops, replies)
}

// Listen implements [wire.Listener].
func (a *address) Listen(ctx context.Context, client string, deliver func(wire.Message)) (wire.Inbox, error) {
	return a.server().Listen(ctx, client, deliver)
}
