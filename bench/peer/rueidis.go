package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// connect makes a rueidis client for each node, with the scripts loaded. One connection for
// each: the default of four dilutes what is sent together, and breaks its order.
func connect(ctx context.Context, addresses []string) ([]rueidis.Client, error) {
	var clients []rueidis.Client
	for _, address := range addresses {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
		})
		if err == nil {
			clients = append(clients, client)
			err = load(ctx, client)
		}
		if err != nil {
			closeAll(clients)
			return nil, fmt.Errorf("node %s: connect: %w", address, err)
		}
	}
	return clients, nil
}

func load(ctx context.Context, client rueidis.Client) error {
	var errs []error
	for _, s := range []script{acquireScript, releaseScript} {
		errs = append(errs, client.Do(ctx, client.B().ScriptLoad().Script(s.source).Build()).Error())
	}
	return errors.Join(errs...)
}

func closeAll(clients []rueidis.Client) {
	for _, client := range clients {
		client.Close()
	}
}

// lockCommand is one script call.
func lockCommand(client rueidis.Client, s script, args [3]string, n int) rueidis.Completed {
	return client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(args[0]).Arg(args[1:n]...).Build()
}

// run calls a script, and has a node that has restarted know it again.
func run(ctx context.Context, client rueidis.Client, s script, args [3]string, n int) rueidis.RedisResult {
	reply := client.Do(ctx, lockCommand(client, s, args, n))
	if err, ok := rueidis.IsRedisErr(reply.Error()); !ok || !err.IsNoScript() {
		return reply
	}
	return client.Do(ctx, client.B().Eval().Script(s.source).Numkeys(1).Key(args[0]).Arg(args[1:n]...).Build())
}

// granted tells whether a script said yes.
func granted(r rueidis.RedisResult) (bool, error) {
	n, err := r.AsInt64()
	return n == 1, err
}
