package memory

import "github.com/quorumlock/quorumlock/internal/wire"

// host is a [Node] as its server sees it. Its methods require the node's mu.
type host Node

// Micros implements [redislua.Host].
func (h *host) Micros() int64 { return h.clock.Wall().UnixMicro() }

// Replication implements [redislua.Host].
func (h *host) Replication() string {
	return "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:" + h.identity + "\r\n"
}

// Publish implements [redislua.Host]. No script depends on the number for other channels than those of inboxes.
func (h *host) Publish(channel, text string) (received int) {
	client, message, ok := wire.Published(channel, text)
	for _, b := range h.inboxes {
		if b.lost || client != b.client && (client != "" || !b.follows) {
			continue
		}
		received++
		if ok {
			b.add(message)
		}
	}
	return received
}
