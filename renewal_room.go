package quorumlock

import "time"

// noRoom is what renewalRoom returns while a renewal has to wait.
const noRoom = never

// renewalRoom is how long a renewal that needs so many nodes takes if it is sent now, or noRoom.
func (c *Client) renewalRoom(need int) time.Duration {
	takes, ok := c.nodes.Capacity(need)
	if !ok {
		return noRoom
	}
	return takes
}
