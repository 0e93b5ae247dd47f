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

func (s *server) writeConfig() error {
	return os.WriteFile(filepath.Join(s.dir, configName), fmt.Appendf(nil, configText, s.maxMemory), 0o644)
}

func (s *server) SetMaxMemory(ctx context.Context, limit int64) error {
	return s.do("set maxmemory", func() error {
		s.maxMemory = limit
		if err := s.writeConfig(); err != nil {
			return err
		}
		state, err := s.state(ctx)
		if err != nil || !state.Running {
			return err
		}
		_, err = s.ask(ctx, "CONFIG", "SET", "maxmemory", strconv.FormatInt(limit, 10))
		return err
	})
}

func (s *server) StepClock(ctx context.Context, offset time.Duration) error {
	return s.do("step the clock", func() error {
		if s.group.faketime.library == "" {
			return fmt.Errorf("%w: %s", errors.ErrUnsupported, s.group.faketime.why)
		}
		if err := redisproc.WriteClock(filepath.Join(s.dir, clockName), offset); err != nil {
			return err
		}
		state, err := s.state(ctx)
		if err != nil || !state.Running || state.Paused {
			return err
		}
		return redisproc.AwaitClock(ctx, "tcp", s.direct(), offset)
	})
}
