package node

import "github.com/redis/rueidis"

// ParseAddress lets the tests see the options of rueidis.
var ParseAddress = parseAddress

// With returns Options that are the options of rueidis.
func With(opt rueidis.ClientOption) Options {
	return Options{Rueidis: func(c *rueidis.ClientOption) { *c = opt }}
}

// NewRedis makes a node from the options of rueidis.
func NewRedis(opt rueidis.ClientOption) (Node, error) { return New(With(opt)) }

// Client returns the options of rueidis that Options stand for.
func (o *Options) Client() rueidis.ClientOption { return o.client() }
