package node

import (
	"strconv"
	"strings"
)

// Pool says that the names of an operation are slots of a pool: those who wait do so for
// any of them, in one queue, that of the pool. It is what a semaphore is on a node, each slot
// of which is a lock with a life, an owner and a fence of its own. The zero Pool is none.
//
// It concerns Acquire, Release, Leave and Resize. The other operations treat slots as the
// locks that they are.
type Pool struct {
	// Name is that of the pool, made by [PoolName].
	Name string
	// Size is how many slots there are, by what the caller knows, and Version which setting
	// of it that is: 0 for what the caller was configured with. A node that has a later
	// setting goes by that; one that has an earlier one, or none, keeps this one when it grants.
	Size    int
	Version uint64
}

// PoolState is what a node that denied an acquisition says of the pool.
type PoolState struct {
	// Size and Version are those in force: of the latest setting that the node or the
	// caller knows.
	Size    int
	Version uint64
	// Free has a bit for each slot that nobody holds: that of slot i is bit i%8 of byte i/8.
	Free []byte
}

// poolPrefix begins the names of all pools, and slotPrefix the names of all slots. The end is the
// same for a pool and its slots: a colon, and the name of the semaphore as [key] writes it.
const (
	poolPrefix = "quorumlock:permits"
	slotPrefix = "quorumlock:permit:"
)

// PoolName is the name of the pool of a semaphore, under which its nodes keep it.
func PoolName(semaphore string) string { return key("permits", semaphore) }

// SlotName is the name of a slot of a pool, by its number from 0 on. It is also its key, laid
// out as the key of a lock. The number stands before the name of the semaphore, which may itself end
// with a colon and a number.
func SlotName(pool string, slot int) string { return slotsName(pool, strconv.Itoa(slot)) }

// slotsName is the name of a slot, or of several slots in a message; see [Vacated].
func slotsName(pool, numbers string) string {
	return slotPrefix + numbers + strings.TrimPrefix(pool, poolPrefix)
}

// SlotOf is the number of a slot by its name, or -1 if that is none of the pool.
func SlotOf(pool, name string) int {
	of, numbers := cutSlots(name)
	slot, err := strconv.ParseUint(numbers, 10, 31)
	if of != pool || err != nil {
		return -1
	}
	return int(slot)
}

// cutSlots is the opposite of slotsName. It returns no pool for any other name.
func cutSlots(name string) (pool, numbers string) {
	rest, ok := strings.CutPrefix(name, slotPrefix)
	end := strings.IndexByte(rest, ':')
	if !ok || end < 0 {
		return "", ""
	}
	return poolPrefix + rest[end:], rest[:end]
}

// PoolWaiterID makes the first part of the id of a waiter for several slots, of what tells it
// from others; see [WaiterID].
func PoolWaiterID(id string, slots int) string {
	if slots == 1 {
		return id
	}
	return id + "*" + strconv.Itoa(slots)
}

// wanted is for how many slots the waiter of this id waits.
func wanted(id string) int {
	id = WaiterKey(id)
	at := strings.LastIndexByte(id, '*')
	n, err := strconv.ParseUint(id[at+1:], 10, 31)
	if at < 0 || err != nil || n == 0 {
		return 1
	}
	return int(n)
}

// Vacated takes apart the name in a message to a waiter for slots of a pool. It returns the pool,
// and the slots that the node would have this waiter take: none if the waiter is to stand by. The
// name of one slot stands for that slot. It is not ok for a message about anything else.
func Vacated(name string) (pool string, slots []int, ok bool) {
	pool, numbers := cutSlots(name)
	for digits := range strings.SplitSeq(numbers, ",") {
		if slot, err := strconv.ParseUint(digits, 10, 31); err == nil {
			slots = append(slots, int(slot))
		}
	}
	return pool, slots, pool != ""
}

// vacated is what Vacated takes apart.
func vacated(pool string, slots []int) string {
	var numbers []byte
	for i, slot := range slots {
		if i > 0 {
			numbers = append(numbers, ',')
		}
		numbers = strconv.AppendInt(numbers, int64(slot), 10)
	}
	return slotsName(pool, string(numbers))
}
