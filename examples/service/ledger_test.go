package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// ledger is the resource: it outlives all replicas, refuses tokens that are too small, and notes what must not happen.
type ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	calls    int
	// wrong has what only a lost lease explains.
	wrong []wrong
	// work is how long a call takes.
	work func(account string) time.Duration
}

type account struct {
	fence.Gate
	callers  int
	bookings []booked
}

// wrong is an event that the lock should have prevented.
type wrong struct {
	lock, what string
	at         time.Time
}

type booked struct {
	token uint64
	at    time.Time
}

func newLedger() *ledger {
	return &ledger{accounts: map[string]*account{}, work: func(name string) time.Duration {
		if strings.HasPrefix(name, "account:") && rand.N(20) == 0 { //nolint:gosec // chance decides, no secret
			return time.Second // leases are renewed meanwhile
		}
		return 5 * time.Millisecond
	}}
}

// book is a call, in two parts with time between: so the ledger sees whether two callers have one lock.
func (l *ledger) book(ctx context.Context, name string, token uint64) error {
	a, err := l.begin(name, token)
	defer l.end(a)
	if err != nil {
		return err
	}
	select {
	case <-time.After(l.work(name)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.show(a, name, token, func() { a.bookings = append(a.bookings, booked{token, time.Now()}) })
}

func (l *ledger) begin(name string, token uint64) (*account, error) {
	l.mu.Lock()
	a := l.accounts[name]
	if a == nil {
		a = &account{}
		l.accounts[name] = a
	}
	if l.calls++; l.calls > 3 {
		l.wrong = append(l.wrong, wrong{"ledger", fmt.Sprintf("%d calls at once", l.calls), time.Now()})
	}
	if a.callers++; a.callers > 1 {
		l.wrong = append(l.wrong, wrong{name, fmt.Sprintf("two callers at once, the second with token %d", token), time.Now()})
	}
	l.mu.Unlock()
	return a, l.show(a, name, token, func() {})
}

func (l *ledger) show(a *account, name string, token uint64, do func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := a.Do(token, func() error {
		do()
		return nil
	})
	if err != nil {
		l.wrong = append(l.wrong, wrong{name, err.Error(), time.Now()})
	}
	return err
}

func (l *ledger) end(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	a.callers--
}

// ServeHTTP serves replicas that are other processes.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseUint(r.FormValue("token"), 10, 64)
	if err == nil {
		err = l.book(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), token)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// bookings returns the bookings on an account.
func (l *ledger) bookings(name string) []booked {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[name]; a != nil {
		return append([]booked(nil), a.bookings...)
	}
	return nil
}
