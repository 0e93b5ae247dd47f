package container

import "time"

// harmless is the stop signal of the containers. Servers ignore it, so that a stop with a timeout is a time to live.
const harmless = "SIGWINCH"

// expire makes the engine end the container at its time, as Resource.Expire of dockertest does, even without this
// program. The call lasts until the container has ended.
func (s *server) expire() {
	id, seconds := s.id, uint(max(1, time.Until(s.group.expires)/time.Second))
	s.calls.Go(func() { _ = s.client.StopContainer(id, seconds) })
}
