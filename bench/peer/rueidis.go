package peer

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
)

// connect makes a rueidis client for each node and loads the scripts. Each client has one connection: the default of
// four makes smaller batches and breaks their order.
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

func lockCommand(client rueidis.Client, s script, args [3]string, n int) rueidis.Completed {
	return client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(args[0]).Arg(args[1:n]...).Build()
}

// run calls a script, and loads it again if the node restarted.
func run(ctx context.Context, client rueidis.Client, s script, args [3]string, n int) rueidis.RedisResult {
	reply := client.Do(ctx, lockCommand(client, s, args, n))
	if err, ok := rueidis.IsRedisErr(reply.Error()); !ok || !err.IsNoScript() {
		return reply
	}
	return client.Do(ctx, client.B().Eval().Script(s.source).Numkeys(1).Key(args[0]).Arg(args[1:n]...).Build())
}

// granted reports whether a script granted the lock.
func granted(r rueidis.RedisResult) (bool, error) {
	n, err := r.AsInt64()
	return n == 1, err
}
