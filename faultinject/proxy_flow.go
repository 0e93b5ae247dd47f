package faultinject

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// flow is one direction of one connection. One goroutine collects data of the sender in a bounded ring. Another
// delivers it to the receiver when the conditions allow. The proxy's lock guards all fields except the bytes in the
// ring. It is never held during a read, a write, or a wait.
type flow struct {
	proxy    *Proxy
	conn     *proxyConn
	met      *conditions
	opposite *flow
	from, to *net.TCPConn
	rng      *rand.Rand

	ring    byteRing
	marks   []mark   // of all that is in the ring, and the end
	portion *portion // requested from a throttled link, or nil

	// shut means that later data is dropped, ended that no more will come, and finished that the receiver was told
	// so.
	shut, ended, finished bool

	// writing is true during a write, writes counts them, and interrupted means that the current write was told to
	// end.
	writing, interrupted bool
	writes               uint64

	wake, room chan struct{} // for the goroutine that delivers, and the one that collects
}

// mark records when data arrived, or the end behind it.
type mark struct {
	size int
	end  ending
	at   time.Time
	luck float64
}

// ending is how a flow ends.
type ending uint8

const (
	goesOn ending = iota
	fin
	rst
)

func newFlow(c *proxyConn, d Direction, met *conditions) *flow {
	return &flow{
		proxy: c.proxy,
		conn:  c,
		met:   met,
		rng:   rand.New(rand.NewPCG(c.proxy.seed, c.number<<2|uint64(d))),
		ring:  newByteRing(c.proxy.buffer),
		wake:  make(chan struct{}, 1),
		room:  make(chan struct{}, 1),
	}
}

// collect reads until the sender ends, or the connection.
func (f *flow) collect() {
	for {
		space := f.space()
		if space == nil {
			return
		}
		n, err := f.from.Read(space)
		f.arrive(n, err)
		if err != nil {
			return
		}
	}
}

// space waits for room in the ring. It returns nil when the connection is over.
func (f *flow) space() []byte {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	for !f.conn.over && f.ring.full() {
		f.proxy.mu.Unlock()
		<-f.room
		f.proxy.mu.Lock()
	}
	if f.conn.over {
		return nil
	}
	return f.ring.free()
}

// arrive handles the result of a read.
func (f *flow) arrive(n int, err error) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	defer f.proxy.changed.Broadcast()
	now := time.Now()
	if n > 0 {
		f.met.received += uint64(n)
		luck := f.rng.Float64()
		if !f.shut {
			f.ring.fill(n)
			f.push(mark{size: n, at: now, luck: luck})
		}
	}
	if err == nil || f.conn.over {
		return
	}
	f.ended = true
	switch {
	case f.conn.unmade():
		f.conn.end(false)
	case !errors.Is(err, io.EOF):
		f.push(mark{end: rst, at: now})
	case !f.shut:
		f.shut = true
		f.push(mark{end: fin, at: now})
	}
	f.conn.settle()
}

func (f *flow) push(m mark) {
	f.marks = append(f.marks, m)
	notify(f.wake)
}

// clear drops present and later data, but not a RST. Only the goroutine that delivers may call it, because the bytes
// belong to it.
func (f *flow) clear() {
	f.shut = true
	f.leaveLink()
	f.marks = slices.DeleteFunc(f.marks, func(m mark) bool { return m.end != rst })
	f.ring.drop(f.ring.size)
	notify(f.room)
}

// fail handles a receiver that is gone, whose host would answer with a RST.
func (f *flow) fail() {
	if f.conn.over {
		return
	}
	f.clear()
	f.finished = true
	f.opposite.push(mark{end: rst, at: time.Now()})
	f.conn.settle()
}

// finish shows the end to the receiver.
func (f *flow) finish(how ending) {
	f.pop()
	if how == rst {
		f.conn.end(true)
		return
	}
	_ = f.to.CloseWrite() // fails only if the receiver is gone, which reading from it shows
	f.finished = true
	f.conn.settle()
}

// interrupt ends a write in progress, and waits for its end.
func (f *flow) interrupt() {
	if !f.writing {
		return
	}
	if !f.interrupted {
		f.interrupted = true
		_ = f.to.SetWriteDeadline(time.Unix(1, 0)) // fails only if closed, which ends the write too
	}
	for write := f.writes; f.writing && f.writes == write; {
		f.proxy.changed.Wait()
	}
}

// notify signals a goroutine that waits, or will wait.
func notify(word chan<- struct{}) {
	select {
	case word <- struct{}{}:
	default:
	}
}
