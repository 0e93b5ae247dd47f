package node

import (
	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// operation is how servers carry out one kind of operation.
type operation struct {
	// script is the Lua script, and formed is set if it begins with the header of a [scriptForm].
	script script
	formed bool
	// batchable is set if the script many does the same.
	batchable bool
	// pools is set if the operation concerns a pool.
	pools bool
	// keys adds the KEYS, args the ARGV, and decode reads the reply: all as the header of the script describes them.
	keys   func(*writer, *wire.Op)
	args   func(*writer, *wire.Op)
	decode func(*wire.Op, *rueidis.RedisMessage) (wire.Reply, error)
}

// operationOf returns how servers carry out an operation. Readers and the slots of pools have some scripts of their own.
func operationOf(op *wire.Op) *operation {
	switch {
	case op.Pool.Name != "" && int(op.Kind) < len(poolOperations) && poolOperations[op.Kind].pools:
		return &poolOperations[op.Kind]
	case op.Reads && op.Kind <= wire.Release:
		return &readerOperations[op.Kind]
	default:
		return &lockOperations[op.Kind]
	}
}

var lockOperations = [...]operation{
	wire.Acquire:      {script: newScript("acquire"), formed: true, batchable: true, keys: (*writer).keysOfAcquire, args: (*writer).acquire, decode: decodeRights},
	wire.Renew:        {script: newScript("renew"), formed: true, batchable: true, keys: (*writer).keysOfRenew, args: (*writer).renew, decode: decodeRights},
	wire.Release:      {script: newScript("release"), formed: true, batchable: true, keys: (*writer).keysOfRelease, args: (*writer).release, decode: decodeRemoval},
	wire.Inspect:      {script: newScript("inspect"), keys: (*writer).keysOfInspect, args: (*writer).inspect, decode: decodeInspection},
	wire.ForceRelease: {script: newScript("forcerelease"), keys: (*writer).keysOfForceRelease, args: (*writer).forceRelease, decode: decodeForced},
	wire.Mark:         {script: newScript("mark"), keys: (*writer).keysOfMarker, args: (*writer).recovery, decode: decodeMarker},
	wire.Open:         {script: newScript("open"), keys: (*writer).keysOfMarker, args: (*writer).open, decode: decodeMarker},
	wire.Leave:        {script: newScript("leave"), keys: (*writer).keysOfLeave, args: (*writer).leave, decode: decodeRemoval},
	wire.Latch:        {script: newScript("latch"), keys: (*writer).keysOfLatch, args: (*writer).latch, decode: decodeLatch},
	wire.Unlatch:      {script: newScript("unlatch"), keys: (*writer).keysOfLatch, args: (*writer).unlatch, decode: decodeLatch},
	wire.Shorten:      {script: newScript("shorten"), keys: (*writer).keysOfShorten, args: (*writer).shorten, decode: decodeRemoval},
	wire.Once:         {script: newScript("once"), keys: (*writer).keysOfOnce, args: (*writer).once, decode: decodeRecord},
	wire.Refresh:      {script: newScript("refresh"), keys: (*writer).keysOfRefresh, args: (*writer).refresh, decode: decodeStandings},
	wire.Enlist:       {script: newScript("lists"), keys: (*writer).keysOfList, args: (*writer).enlist, decode: decodeList},
}

var readerOperations = [...]operation{
	wire.Acquire: {script: newScript("acquireread"), formed: true, batchable: true, keys: (*writer).keysOfAcquire, args: (*writer).acquire, decode: decodeRights},
	wire.Renew:   {script: newScript("renewread"), formed: true, keys: (*writer).keysOfReaderRenew, args: (*writer).renew, decode: decodeRights},
	wire.Release: {script: newScript("releaseread"), formed: true, batchable: true, keys: (*writer).keysOfRelease, args: (*writer).release, decode: decodeRemoval},
}

var poolOperations = [...]operation{
	wire.Acquire: {script: newScript("permits_acquire"), formed: true, batchable: true, pools: true, keys: (*writer).keysOfSlots, args: (*writer).acquirePermits, decode: decodePermits},
	wire.Release: {script: newScript("permits_release"), formed: true, batchable: true, pools: true, keys: (*writer).keysOfSlots, args: (*writer).releasePermits, decode: decodeRemoval},
	wire.Leave:   {script: newScript("permits_leave"), pools: true, keys: (*writer).keysOfPool, args: (*writer).leavePool, decode: decodeRemoval},
	wire.Resize:  {script: newScript("permits_resize"), pools: true, keys: (*writer).keysOfPool, args: (*writer).size, decode: decodeResize},
}
