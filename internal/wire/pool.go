package wire

import (
	"strconv"
	"strings"
	"time"
)

// Pool says that the names of an operation are slots of a pool. Its waiters wait for any slot, in one queue
// for the whole pool. A pool is a semaphore on a node: each slot is a lock with its own TTL, owner and
// fence. The zero Pool is none.
//
// It concerns Acquire, Release, Leave and Resize. The other operations treat slots as locks.
type Pool struct {
	// Name is the pool's name, made by [PoolName].
	Name string
	// Size is the number of slots that the caller knows, and Version the version of that setting: 0 for
	// the caller's configuration. A node with a later setting uses its own. A node with an earlier one, or
	// none, keeps this one when it grants.
	Size    int
	Version uint64
}

// PoolState is the state of a pool on a node that denied an acquisition.
type PoolState struct {
	// Size and Version are the latest setting that the node or the caller knows.
	Size    int
	Version uint64
	// Free has a bit for each free slot: slot i is bit i%8 of byte i/8.
	Free []byte
}

// poolPrefix begins the names of all pools, slotPrefix the names of all slots. A pool and its slots have the
// same ending: a colon, and the name of the semaphore as [Key] writes it.
const (
	poolPrefix = "quorumlock:permits"
	slotPrefix = "quorumlock:permit:"
)

// PoolName returns the name of a semaphore's pool on its nodes.
func PoolName(semaphore string) string { return Key("permits", semaphore) }

// SlotName returns the name of a slot of a pool, by its number from 0 on. It is also the key of the slot's
// lock. The number comes before the name of the semaphore, which may itself end with a colon and a number.
func SlotName(pool string, slot int) string { return SlotsName(pool, strconv.Itoa(slot)) }

// SlotsName returns the name of a slot, or of several slots in a message; see [Vacated].
func SlotsName(pool, numbers string) string {
	return slotPrefix + numbers + strings.TrimPrefix(pool, poolPrefix)
}

// SlotOf returns the number of a slot from its name, or -1 if the name is not one of the pool's.
func SlotOf(pool, name string) int {
	of, numbers := cutSlots(name)
	slot, err := strconv.ParseUint(numbers, 10, 31)
	if of != pool || err != nil {
		return -1
	}
	return int(slot)
}

// OtherHolders stands for the holders of permits where a single owner is told, and the client named none of their slots.
const OtherHolders = "quorumlock:permits"

// IndexPrefix is how the key of the index of a pool begins.
const IndexPrefix = "quorumlock:slots"

// IndexRest returns how the key of the index of a pool goes on, from the pool's name or the name of one of its slots, or ""
// for any other name.
func IndexRest(name string) string {
	rest, isPool := strings.CutPrefix(name, poolPrefix)
	if !isPool {
		numbers, isSlot := strings.CutPrefix(name, slotPrefix)
		digits := len(numbers) - len(strings.TrimLeft(numbers, "0123456789"))
		if !isSlot || digits == 0 || digits == len(numbers) || numbers[digits] != ':' {
			return ""
		}
		rest = numbers[digits:]
	}
	return rest
}

// cutSlots is the inverse of slotsName. It returns no pool for any other name.
func cutSlots(name string) (pool, numbers string) {
	rest, ok := strings.CutPrefix(name, slotPrefix)
	end := strings.IndexByte(rest, ':')
	if !ok || end < 0 {
		return "", ""
	}
	return poolPrefix + rest[end:], rest[:end]
}

// PoolWaiterID makes the id of a waiter for several slots, from a unique id; its result is the argument of
// [WaiterID].
func PoolWaiterID(id string, slots int) string {
	if slots == 1 {
		return id
	}
	return id + "*" + strconv.Itoa(slots)
}

// SlotsWanted returns for how many slots a waiter waits, from an id made by [PoolWaiterID].
func SlotsWanted(id string) int {
	_, wanted, _ := strings.Cut(WaiterKey(id), "*")
	slots, _ := strconv.Atoi(wanted)
	return max(slots, 1)
}

// Vacated parses the name in a message to a waiter for slots of a pool. It returns the pool and the slots
// that the waiter should take; a standby message has none. The name of one slot means that slot. ok is false
// for a message about anything else.
func Vacated(name string) (pool string, slots []int, ok bool) {
	pool, numbers := cutSlots(name)
	for digits := range strings.SplitSeq(numbers, ",") {
		if slot, err := strconv.ParseUint(digits, 10, 31); err == nil {
			slots = append(slots, int(slot))
		}
	}
	return pool, slots, pool != ""
}

// Eviction returns the operations that take names from one owner and keep its lease from renewing, while others keep theirs:
// a lock, or permits of one semaphore with the pool p. For permits, wake follows: a release with nothing to remove, which
// wakes the waiters in the queue of the pool. For a lock, it has no pool, and is not needed.
func Eviction(owner string, names []string, ttl time.Duration, p Pool) (take, wake Op) {
	for _, name := range names {
		if pool, _ := cutSlots(name); pool != "" {
			p.Name, p.Size = pool, max(p.Size, SlotOf(pool, name)+1)
		}
	}
	return Op{Kind: ForceRelease, Names: names, Owner: owner, TTL: ttl}, Op{Kind: Release, Names: names, Owner: owner, Pool: p}
}
