package faultinject

// byteRing is a bounded queue of bytes between one goroutine that fills it and one that empties it. They call its
// methods under a lock, but use the returned slices without it: free space belongs to the one, used space to the
// other.
//
// It starts small, because most connections never have much data in flight, and grows by doubling.
type byteRing struct {
	bytes []byte
	bound int
	// start is where the used bytes begin, size how many they are.
	start, size int
	// offered is the room that the last call of free returned. scarce is set if all of it was filled, so that there
	// may have been more to read.
	offered int
	scarce  bool
}

// smallRing is how large a ring is at first.
const smallRing = 4 << 10

func newByteRing(bound int) byteRing {
	return byteRing{bytes: make([]byte, min(bound, smallRing)), bound: bound}
}

// full reports whether the ring has no room and cannot grow.
func (r *byteRing) full() bool { return r.size == r.bound }

// free returns room to read into, empty only if the ring is full. It is for the filling side. No slice of an earlier
// call may be in use, because the ring may start over or grow.
func (r *byteRing) free() []byte {
	if r.scarce || r.size == len(r.bytes) {
		r.grow()
	}
	if r.size == 0 {
		r.start = 0 // small traffic stays in the same few lines of the cache
	}
	end := r.start + r.size
	room := r.bytes[min(end, len(r.bytes)):]
	if end >= len(r.bytes) {
		room = r.bytes[end-len(r.bytes) : r.start]
	}
	r.offered = len(room)
	return room
}

// grow doubles the ring, up to its bound. Slices that the other side uses stay valid.
func (r *byteRing) grow() {
	r.scarce = false
	if len(r.bytes) == r.bound {
		return
	}
	larger := make([]byte, min(2*len(r.bytes), r.bound))
	n := copy(larger, r.used(r.size))
	copy(larger[n:], r.bytes[:r.size-n])
	r.bytes, r.start = larger, 0
}

// fill adds the first n bytes of what free returned.
func (r *byteRing) fill(n int) {
	r.size += n
	r.scarce = n == r.offered
}

// used returns the first bytes, n of them or as many as lie in one piece.
func (r *byteRing) used(n int) []byte {
	return r.bytes[r.start:min(r.start+min(n, r.size), len(r.bytes))]
}

// drop removes the first n bytes.
func (r *byteRing) drop(n int) {
	r.start = (r.start + n) % len(r.bytes)
	r.size -= n
}
