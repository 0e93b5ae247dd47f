package quorumlock

import "time"

// nodeEvents turns the senders' news of nodes into log lines and hooks.
type nodeEvents struct{ client *Client }

func (e nodeEvents) NodeDown(name string, err error) {
	c := e.client
	c.warn("quorumlock: node failed, and is only probed from now on", "node", name, "err", err)
	if hook := c.cfg.Hooks.NodeDown; hook != nil {
		c.reporter.enqueue(func() { hook(name, err) })
	}
}

func (e nodeEvents) NodeUp(name string) {
	c := e.client
	c.info("quorumlock: node answers again", "node", name)
	if hook := c.cfg.Hooks.NodeUp; hook != nil {
		c.reporter.enqueue(func() { hook(name) })
	}
}

func (e nodeEvents) NodeRecovering(name string, since, until time.Time, restarted bool) {
	c := e.client
	c.warn("quorumlock: node recovers, as it is new, has restarted or has failed over: holders keep their locks, but it gives no new ones until every lock that it may have forgotten has expired",
		"node", name, "since", since, "until", until, "restarted", restarted)
	if hook := c.cfg.Hooks.NodeRecovering; hook != nil {
		event := NodeRecoveringEvent{Node: name, Since: since, Until: until, Restarted: restarted}
		c.reporter.enqueue(func() { hook(event) })
	}
}

func (e nodeEvents) NodeRecovered(name string) {
	e.client.info("quorumlock: node has recovered, and gives new locks again", "node", name)
}

func (e nodeEvents) NodeRefuses(name string, err error) {
	e.client.warn("quorumlock: node refuses this client", "node", name, "err", err)
}

func (e nodeEvents) NodeServes(name string) {
	e.client.info("quorumlock: node serves this client again", "node", name)
}

func (e nodeEvents) SameServer(name, other string) {
	e.client.warn("quorumlock: two nodes are one server: only one of them votes", "node", name, "same_as", other)
}

func (e nodeEvents) CapacityFreed() { e.client.scheduler.onCapacity() }
