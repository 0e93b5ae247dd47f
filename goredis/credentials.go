package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
)

// credentials are the user and password of a node, or the provider that knows them. Of several providers, the first
// of stream, callContext and call counts, as in go-redis.
type credentials struct {
	user, password string
	call           func() (user, password string)
	callContext    func(ctx context.Context) (user, password string, err error)
	stream         auth.StreamingCredentialsProvider
	// timeout bounds one call of callContext.
	timeout time.Duration

	// subscription guards the subscription to the stream. A connection may hold it while it subscribes.
	subscription sync.Mutex
	subscribed   bool
	unsubscribe  auth.UnsubscribeFunc
	closed       bool

	// mu guards latest, the latest credentials of the stream.
	mu     sync.Mutex
	latest auth.Credentials
}

// change reports whether a provider may return other credentials at another time.
func (c *credentials) change() bool {
	return c.stream != nil || c.callContext != nil || c.call != nil
}

// forRueidis is rueidis' AuthCredentialsFn, which it calls for each new connection.
func (c *credentials) forRueidis(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	user, password, err := c.get()
	if err != nil {
		return rueidis.AuthCredentials{}, fmt.Errorf("the credentials provider failed: %w", err)
	}
	return rueidis.AuthCredentials{Username: sentUser(user, password), Password: password}, nil
}

func (c *credentials) get() (user, password string, err error) {
	switch {
	case c.stream != nil:
		return c.fromStream()
	case c.callContext != nil:
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		return c.callContext(ctx)
	default:
		user, password = c.call()
		return user, password, nil
	}
}

var errClosed = errors.New("the node is closed")

// fromStream returns the latest credentials of the stream. It subscribes first, if need be.
func (c *credentials) fromStream() (user, password string, err error) {
	c.subscription.Lock()
	defer c.subscription.Unlock()
	if c.closed {
		return "", "", errClosed
	}
	if !c.subscribed {
		first, unsubscribe, err := c.stream.Subscribe(c)
		if err != nil {
			return "", "", err
		}
		c.subscribed, c.unsubscribe = true, unsubscribe
		c.setFirst(first)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		return "", "", errors.New("it has no credentials")
	}
	user, password = c.latest.BasicAuth()
	return user, password, nil
}

// setFirst keeps the credentials that Subscribe returned, unless OnNext has brought later ones.
func (c *credentials) setFirst(first auth.Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = first
	}
}

// OnNext implements [auth.CredentialsListener]. The next connection uses the new credentials.
func (c *credentials) OnNext(next auth.Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = next
}

// OnError implements [auth.CredentialsListener]. The latest credentials may still be valid: the server decides.
func (c *credentials) OnError(error) {}

func (c *credentials) close() error {
	c.subscription.Lock()
	defer c.subscription.Unlock()
	c.closed = true
	unsubscribe := c.unsubscribe
	c.unsubscribe = nil
	if unsubscribe == nil {
		return nil
	}
	if err := unsubscribe(); err != nil {
		return fmt.Errorf("goredis: unsubscribe from the credentials provider: %w", err)
	}
	return nil
}
