package container

import "time"

// harmless is the signal with which the engine asks a container to stop: one that it ignores,
// so that a stop with a timeout is a time to live.
const harmless = "SIGWINCH"

// expire has the engine end the container at its time, as Resource.Expire of dockertest does,
// and without this program. The call lasts until the container has ended, however it did.
func (s *server) expire() {
	id, seconds := s.id, uint(max(1, time.Until(s.group.expires)/time.Second))
	s.calls.Go(func() { _ = s.client.StopContainer(id, seconds) })
}
