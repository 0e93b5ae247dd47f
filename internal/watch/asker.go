package watch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// batch is the number of names in one script call, and of commands in one exchange.
const batch = 200

// asker asks one node. The library's client asks for the holders; all other commands use a connection of their own.
type asker struct {
	lib    *node.Redis
	opt    node.Options
	limits node.Limits
	prefix string
	// client is nil while there is no connection. address is the server that it leads to.
	client  rueidis.Client
	address string

	// said is the node's answer in this round.
	said Node
	// fresh are the locks found in this round.
	fresh []string
	// cursor is where the search continues. swept is set once the search has reached the end.
	cursor uint64
	swept  bool
	// denied is the reason why the node is not searched again. Each further attempt would add a line to its ACL LOG.
	denied error
}

// absentLock is a name without a holder, which every user may read.
const absentLock = "quorumlock:top"

// greet checks whether the node answers.
func (a *asker) greet(ctx context.Context) {
	a.said, a.fresh = Node{Name: a.lib.Name(), Locks: make(map[string]Lock), Kinds: make(map[string]Kinds)}, nil
	// The first round connects, so its time is no measure of a round trip.
	if a.lib.Identity() == "" {
		if a.said.Err = a.lib.Probe(ctx); a.said.Err != nil {
			return
		}
	}
	begun := clock.System().Now()
	absent := absentLock
	if a.opt.Tag != "" {
		absent += ":{" + a.opt.Tag + "}"
	}
	reply := a.holders(ctx, []string{absent})
	a.said.Err, a.said.Recovering, a.said.Unmarked = reply.Err, reply.Recovering, reply.Unmarked
	if reply.Err == nil {
		a.said.Latency = clock.System().Now() - begun
	}
}

func (a *asker) holders(ctx context.Context, names []string) node.Reply {
	return a.do(ctx, node.Op{Kind: node.Inspect, Names: names, Limits: a.limits})
}

func (a *asker) do(ctx context.Context, op node.Op) node.Reply {
	replies := make([]node.Reply, 1)
	a.lib.Do(ctx, []node.Op{op}, replies)
	return replies[0]
}

// inspect asks for the holders of the names.
func (a *asker) inspect(ctx context.Context, names []string) {
	for few := range slices.Chunk(names, batch) {
		a.inspectSome(ctx, few)
	}
}

// inspectSome asks about a few names at once. The node refuses the whole call if the user may not read one name, or
// if one is no lock. In that case, inspectSome asks about each half.
func (a *asker) inspectSome(ctx context.Context, names []string) {
	if a.said.Err != nil {
		return
	}
	reply := a.holders(ctx, names)
	switch {
	case reply.Err == nil:
		for _, h := range reply.Holders {
			l := a.said.Locks[h.Name]
			l.Holders = append(l.Holders, h)
			a.said.Locks[h.Name] = l
		}
	case isLoss(reply.Err):
		a.lose(reply.Err)
	case len(names) == 1:
		a.said.Locks[names[0]] = Lock{Err: reply.Err}
	default:
		a.inspectSome(ctx, names[:len(names)/2])
		a.inspectSome(ctx, names[len(names)/2:])
	}
}

// lose records that the node stopped answering, and discards its earlier answers, which may be out of date.
func (a *asker) lose(err error) {
	a.said.Err = err
	clear(a.said.Locks)
	clear(a.said.Kinds)
}

// isLoss reports whether an error concerns the node, and not a name.
func isLoss(err error) bool {
	return slices.ContainsFunc([]error{node.ErrTimeout, node.ErrUnreachable, node.ErrProtocol, node.ErrCanceled, node.ErrMisconfigured},
		func(reason error) bool { return errors.Is(err, reason) })
}

// ask runs commands, and closes the connection if one was not answered.
func (a *asker) ask(ctx context.Context, commands ...[]string) []rueidis.RedisResult {
	opt := a.opt.ClientOption
	if a.opt.Tag != "" { // the slot may have moved to another server
		opt.InitAddress = []string{a.lib.Address()}
		if a.address != a.lib.Address() {
			a.hangUp()
		}
	}
	if a.client == nil {
		client, err := Connect(opt, "quorumlock-top")
		if err != nil {
			return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(commands))
		}
		a.client, a.address = client, a.lib.Address()
	}
	built := make([]rueidis.Completed, len(commands))
	for i, args := range commands {
		built[i] = a.client.B().Arbitrary(args...).Build()
	}
	answers := a.client.DoMulti(ctx, built...)
	if slices.ContainsFunc(answers, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil }) {
		a.hangUp()
	}
	return answers
}

func (a *asker) hangUp() {
	if a.client != nil {
		a.client.Close()
		a.client = nil
	}
}

// Connect makes a connection for commands of an operator. It retries nothing, and does not reconnect.
func Connect(opt rueidis.ClientOption, name string) (rueidis.Client, error) {
	opt.ForceSingleClient = opt.Sentinel.MasterSet == ""
	opt.DisableRetry, opt.DisableCache = true, true
	opt.PipelineMultiplex = -1
	opt.ClientName = name
	opt.ClientSetInfo = rueidis.DisableClientSetInfo // it needs a right that the library does not need
	client, err := rueidis.NewClient(opt)
	if err != nil && client != nil {
		client.Close()
	}
	return client, err
}

// isDenied reports whether a server denies the user a command, and not only a key.
func isDenied(err error, command string) bool {
	return err != nil && strings.Contains(err.Error(), "NOPERM") && strings.Contains(strings.ToLower(err.Error()), "'"+command+"'")
}
