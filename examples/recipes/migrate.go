package recipes

import (
	"context"

	"github.com/quorumlock/quorumlock"
)

// Schema is a database with a versioned schema. Step brings it from one version to the next, in one transaction. The
// transaction also writes the version and the token, and fails if the stored version or token is larger.
type Schema interface {
	Version(ctx context.Context) (int, error)
	Step(ctx context.Context, version int, token uint64) error
}

// Migrate brings a schema to a version. All instances call it when they start, and continue when it returns nil: one
// does the work, and the others wait for it.
func Migrate(ctx context.Context, client *quorumlock.Client, schema Schema, target int) error {
	lock := client.RedLock("migrations")
	return lock.Do(ctx, func(ctx context.Context) error {
		token, _ := lock.Token(ctx)
		version, err := schema.Version(ctx)
		for ; err == nil && version < target; version++ {
			err = schema.Step(ctx, version+1, token)
		}
		return err
	})
}
