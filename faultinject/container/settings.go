package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const configName = "redis.conf"

// configText is the configuration of the server. The log goes to standard output. The page cache outlives the server,
// so appended data survives without a sync.
const configText = `bind 0.0.0.0
protected-mode no
dir ` + dataDir + `
loglevel warning
save ""
appendonly yes
appendfsync no
maxmemory %d
maxmemory-policy noeviction
`

func (d *driver) writeConfig() error {
	return os.WriteFile(filepath.Join(d.dir, configName), fmt.Appendf(nil, configText, d.maxMemory), 0o644)
}

func (d *driver) SetMaxMemory(ctx context.Context, limit int64) error {
	d.maxMemory = limit
	if err := d.writeConfig(); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.Running {
		return err
	}
	_, err = d.Command(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
	return err
}

func (d *driver) StepClock(ctx context.Context, offset time.Duration) error {
	if d.group.faketime.library == "" {
		return fmt.Errorf("%w: %s", errors.ErrUnsupported, d.group.faketime.why)
	}
	if err := redisproc.WriteClock(filepath.Join(d.dir, clockName), offset); err != nil {
		return err
	}
	state, err := d.state(ctx)
	if err != nil || !state.Running || state.Paused {
		return err
	}
	return redisproc.AwaitClock(ctx, "tcp", d.direct(), offset)
}
