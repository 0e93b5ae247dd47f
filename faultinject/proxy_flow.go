package faultinject

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"time"
)

// flowBuffer bounds the bytes that a flow keeps, and readSize the bytes of one read.
const (
	flowBuffer = 256 << 10
	readSize   = 32 << 10
)

// flow is one direction of one connection. One goroutine collects data of the sender. Another delivers it to the
// receiver when the conditions allow. The proxy's lock guards all fields. It is never held during a read, a write, or
// a wait.
type flow struct {
	proxy    *Proxy
	conn     *proxyConn
	met      *conditions
	opposite *flow
	from, to *net.TCPConn

	// pieces are the data that was read and not delivered, and the end behind it; size is the number of
	// their bytes.
	pieces []piece
	size   int

	// greeting is the first data of a client, and lanes are where its data is kept for detours. detained means that
	// data does not take the usual way any more.
	greeting []byte
	lanes    []*lane
	detained bool

	// shut means that later data is dropped, ended that no more will come, and finished that the receiver was told
	// so.
	shut, ended, finished bool

	// writing is true during a write, writes counts them, and interrupted means that the current write was told to
	// end.
	writing, interrupted bool
	writes               uint64

	wake, room chan struct{} // for the goroutine that delivers, and the one that collects
}

// piece is the data of one read, or the end of the data.
type piece struct {
	data []byte
	end  ending
	at   time.Time // of its arrival
	luck float64
}

// ending is how a flow ends.
type ending uint8

const (
	goesOn ending = iota
	fin
	rst
)

func newFlow(c *proxyConn, met *conditions) *flow {
	return &flow{proxy: c.proxy, conn: c, met: met, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// collect reads until the sender ends, or the connection.
func (f *flow) collect() {
	buffer := make([]byte, readSize)
	for {
		room := f.awaitRoom()
		if room == 0 {
			return
		}
		n, err := f.from.Read(buffer[:min(room, readSize)])
		f.arrive(bytes.Clone(buffer[:n]), err)
		if err != nil {
			return
		}
	}
}

// awaitRoom returns how many bytes the flow may read now, or 0 when the connection is over.
func (f *flow) awaitRoom() int {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	for !f.conn.over && f.size == flowBuffer {
		f.proxy.mu.Unlock()
		<-f.room
		f.proxy.mu.Lock()
	}
	if f.conn.over {
		return 0
	}
	return flowBuffer - f.size
}

// arrive handles the result of a read.
func (f *flow) arrive(data []byte, err error) {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	defer f.proxy.changed.Broadcast()
	f.met.bytes.Received += uint64(len(data))
	if len(data) > 0 && f.passes(data) && !f.shut {
		f.size += len(data)
		f.push(piece{data: data, luck: rand.Float64()})
	}
	if err == nil || f.conn.over {
		return
	}
	f.ended = true
	switch {
	case f.conn.unmade():
		f.conn.end(false)
	case !errors.Is(err, io.EOF):
		f.push(piece{end: rst})
	case !f.shut:
		f.shut = true
		f.push(piece{end: fin})
	}
	f.conn.settle()
}

// passes keeps data for detours, and reports whether the flow delivers it.
func (f *flow) passes(data []byte) bool { return f.met != &f.proxy.toServer || f.keep(data) }

func (f *flow) push(p piece) {
	p.at = time.Now()
	f.pieces = append(f.pieces, p)
	notify(f.wake)
}

// deliver writes until the connection is over.
func (f *flow) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		f.proxy.mu.Lock()
		again, over := f.advance()
		f.proxy.mu.Unlock()
		switch {
		case over:
			return
		case again.IsZero():
			<-f.wake
		default:
			timer.Reset(time.Until(again))
			select {
			case <-f.wake:
			case <-timer.C:
			}
		}
	}
}

// advance delivers all data that may pass now. It returns when to check again, or zero if only a change can make a
// difference.
func (f *flow) advance() (again time.Time, over bool) {
	for !f.conn.over {
		if f.met.held || len(f.pieces) == 0 {
			return time.Time{}, false
		}
		head, limit := f.pieces[0], f.met.limit
		due := f.met.due(head)
		switch {
		case due.After(time.Now()):
			return due, false
		case head.end != goesOn:
			f.finish(head.end)
		case limit != nil && limit.writing:
			return time.Time{}, false
		case limit != nil && limit.left == 0:
			f.act(limit)
		default:
			f.write(head.data, limit)
		}
	}
	return time.Time{}, true
}

// write passes data, within the limit if there is one. It releases the lock meanwhile.
func (f *flow) write(data []byte, limit *byteLimit) {
	if limit != nil {
		data = data[:min(int64(len(data)), limit.left)]
		limit.left -= int64(len(data))
		limit.writing = true
	}
	f.writing = true
	f.writes++
	f.proxy.mu.Unlock()
	n, err := f.to.Write(data)
	f.proxy.mu.Lock()
	f.writing = false
	if f.interrupted {
		f.interrupted = false
		_ = f.to.SetWriteDeadline(time.Time{}) // fails only if closed, which the next write shows
	}
	f.pass(n)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.fail()
	}
	if limit != nil {
		limit.left += int64(len(data) - n)
		limit.writing = false
		if limit.left == 0 && limit == f.met.limit {
			f.act(limit)
		}
		f.proxy.wakeAll() // others may have waited for this
	}
	f.proxy.changed.Broadcast()
}

// pass counts n bytes of the first piece as passed.
func (f *flow) pass(n int) {
	f.met.bytes.Passed += uint64(n)
	f.size -= n
	if f.pieces[0].data = f.pieces[0].data[n:]; len(f.pieces[0].data) == 0 {
		f.pieces = f.pieces[1:]
	}
	notify(f.room)
}

// act performs the action after the last byte.
func (f *flow) act(limit *byteLimit) {
	f.met.limit = nil
	switch limit.then {
	case ThenHold:
		f.met.held = true
	case ThenReset:
		f.conn.end(true)
	case ThenClose:
		f.clear()
		f.pieces = slices.Insert(f.pieces, 0, piece{end: fin})
	}
	f.proxy.wakeAll()
}

// clear drops present and later data, but not a RST. Only the goroutine that delivers may call it, because it writes
// the first piece without the lock.
func (f *flow) clear() {
	f.shut = true
	f.pieces = slices.DeleteFunc(f.pieces, func(p piece) bool { return p.end != rst })
	f.size = 0
	notify(f.room)
}

// fail handles a receiver that is gone, whose host would answer with a RST.
func (f *flow) fail() {
	if f.conn.over {
		return
	}
	f.clear()
	f.finished = true
	f.opposite.push(piece{end: rst})
	f.conn.settle()
}

// finish shows the end to the receiver.
func (f *flow) finish(how ending) {
	f.pieces = f.pieces[1:]
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
