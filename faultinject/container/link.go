package container

import (
	"context"

	"github.com/quorumlock/quorumlock/faultinject"
)

func (s *server) CutOff(context.Context) error {
	return s.do("cut off", func() error { s.proxy.Cut(faultinject.BothWays); return nil })
}

func (s *server) Heal(context.Context) error {
	return s.do("heal", func() error { s.proxy.Uncut(faultinject.BothWays); return nil })
}
