package container

import "time"

// harmless is the stop signal of the containers. Servers ignore it, so that a stop with a timeout is a time to live.
const harmless = "SIGWINCH"

// expire makes the engine end the container at its time, as Resource.Expire of dockertest does, even without this
// program. The call lasts until the container has ended.
func (d *driver) expire() {
	id, seconds := d.id, uint(max(1, time.Until(d.group.expires)/time.Second))
	d.calls.Go(func() { _ = d.client.StopContainer(id, seconds) })
}
