package faultinject

// byteRing is a bounded queue of bytes between one goroutine that fills it and one that
// empties it. They take turns for the calls, under a lock, but use the slices that they
// get without it: what is free belongs to the one, what is used to the other.
type byteRing struct {
	bytes []byte
	// start is where the used bytes begin, size how many they are.
	start, size int
}

func newByteRing(capacity int) byteRing { return byteRing{bytes: make([]byte, capacity)} }

func (r *byteRing) full() bool { return r.size == len(r.bytes) }

// free returns room to read into, empty only if the ring is full. It is for the side that
// fills: nobody else may know of the room of an earlier call when the ring starts over.
func (r *byteRing) free() []byte {
	if r.size == 0 {
		r.start = 0 // small traffic stays in the same few lines of the cache
	}
	end := r.start + r.size
	if end >= len(r.bytes) {
		return r.bytes[end-len(r.bytes) : r.start]
	}
	return r.bytes[end:]
}

// fill adds the first n bytes of what free returned.
func (r *byteRing) fill(n int) { r.size += n }

// used returns the first bytes, n of them or as many as lie in one piece.
func (r *byteRing) used(n int) []byte {
	return r.bytes[r.start:min(r.start+min(n, r.size), len(r.bytes))]
}

// drop removes the first n bytes.
func (r *byteRing) drop(n int) {
	r.start = (r.start + n) % len(r.bytes)
	r.size -= n
}
