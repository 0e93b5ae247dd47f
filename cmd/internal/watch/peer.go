package watch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Peer is one node as a command of an operator asks it: operations go through the library's client, and all other
// commands through a connection of their own. It is for one goroutine.
type Peer struct {
	node.Node
	Options node.Options
	// program is the name of the connection, for the server's CLIENT LIST.
	program string
	// client is nil before the first command.
	client rueidis.Client
}

// NewPeer makes a peer, which connects when it is first used. It fails only for options that do not describe a node.
// patience is the timeout of one answer, unless the options have another.
func NewPeer(opt node.Options, patience time.Duration, program string) (*Peer, error) {
	opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, patience)
	opt.Timeout = cmp.Or(opt.Timeout, patience)
	lib, err := node.New(opt)
	if err != nil {
		return nil, err
	}
	return &Peer{Node: lib, Options: opt, program: program}, nil
}

// Close closes all connections.
func (p *Peer) Close() {
	if p.client != nil {
		p.client.Close()
	}
	_ = p.Node.Close() // it never fails
}

// Run runs one operation of the library.
func (p *Peer) Run(ctx context.Context, op wire.Op) wire.Reply {
	replies := make([]wire.Reply, 1)
	p.Do(ctx, []wire.Op{op}, replies)
	return replies[0]
}

// Ask runs commands. It connects first if necessary.
func (p *Peer) Ask(ctx context.Context, commands ...[]string) []rueidis.RedisResult {
	if err := p.Connect(); err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(commands))
	}
	built := make([]rueidis.Completed, len(commands))
	for i, args := range commands {
		built[i] = p.client.B().Arbitrary(args...).Build()
	}
	return p.client.DoMulti(ctx, built...)
}

// Connect makes the connection, unless there is one.
func (p *Peer) Connect() (err error) {
	if p.client == nil {
		p.client, err = p.Dial()
	}
	return err
}

// Dial makes a further connection to the server, which retries nothing, and does not reconnect.
func (p *Peer) Dial() (rueidis.Client, error) {
	opt := p.Node.(interface{ ClientOption() rueidis.ClientOption }).ClientOption()
	opt.SelectDB = p.Options.Database
	if p.Options.Tag != "" {
		opt.InitAddress = []string{p.Node.(wire.Located).Address()}
	}
	opt.ForceSingleClient = opt.Sentinel.MasterSet == ""
	opt.DisableRetry, opt.DisableCache = true, true
	opt.PipelineMultiplex = -1
	opt.ClientName = p.program
	opt.ClientSetInfo = rueidis.DisableClientSetInfo // it needs a right that the library does not need
	client, err := rueidis.NewClient(opt)
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	return client, nil
}

// Time returns the server's clock.
func (p *Peer) Time(ctx context.Context) (time.Time, error) {
	answer, err := p.Ask(ctx, []string{"TIME"})[0].ToMessage()
	if err != nil {
		return time.Time{}, err
	}
	return ParseTime(answer)
}

// ParseTime parses the answer to TIME.
func ParseTime(answer rueidis.RedisMessage) (time.Time, error) {
	parts, err := answer.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return time.Time{}, errors.New("the answer to TIME is not a time")
	}
	return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
}

// InSlot puts a key of an operator into the slot of the node, if that is a slot of a cluster.
func (p *Peer) InSlot(key string) string {
	if p.Options.Tag == "" {
		return key
	}
	return key + ":{" + p.Options.Tag + "}"
}
