package node

// Sharers returns how many exchanges are under way on the present connection.
func (r *Redis) Sharers() int {
	r.connToken <- struct{}{}
	defer func() { <-r.connToken }()
	return r.link.sharers
}
