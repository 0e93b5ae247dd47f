package node

import (
	"context"
	"io"

	"github.com/redis/rueidis"
)

// Sharers returns how many exchanges are under way on the present connection.
func (r *redisNode) Sharers() int {
	r.connToken <- struct{}{}
	defer func() { <-r.connToken }()
	return r.link.sharers
}

// WrapClient replaces the client of the present connection.
func (r *redisNode) WrapClient(wrap func(rueidis.Client) rueidis.Client) {
	r.connToken <- struct{}{}
	defer func() { <-r.connToken }()
	r.link.client = wrap(r.link.client)
}

// Reconnect gives the present connection up and makes another one, as an exchange does that finds it broken.
func (r *redisNode) Reconnect(ctx context.Context) error {
	r.connToken <- struct{}{}
	defer func() { <-r.connToken }()
	r.link.giveUp(ctx, io.EOF)
	return r.link.open(ctx, &r.opt)
}
