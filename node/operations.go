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
	// nameless is set if the names are no KEYS, and pools if the name of the pool is the first of them.
	nameless, pools bool
	// args adds the ARGV, and decode reads the reply: both as the header of the script describes them.
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
	wire.Acquire: {script: newScript("acquire"), formed: true, batchable: true, args: (*writer).acquire, decode: decodeRights},
	wire.Renew:   {script: newScript("renew"), formed: true, batchable: true, args: (*writer).renew, decode: decodeRights},
	wire.Release: {script: newScript("release"), formed: true, batchable: true, args: (*writer).release, decode: decodeRemoval},
	wire.Inspect: {
		script: newScript("lib/key", "lib/fence", "lib/put", "lib/readers", "inspect"),
		args:   (*writer).inspect, decode: decodeInspection,
	},
	wire.ForceRelease: {
		script: newScript("lib/key", "lib/fence", "lib/queue", "lib/announce", "lib/put", "lib/readers", "lib/book",
			"forcerelease"),
		args: (*writer).forceRelease, decode: decodeForced,
	},
	wire.Mark: {script: newScript("lib/recovery", "lib/state", "mark"), args: (*writer).recovery, decode: decodeMarker},
	wire.Open: {script: newScript("lib/recovery", "lib/state", "open"), args: (*writer).open, decode: decodeMarker},
	wire.Leave: {
		script: newScript("lib/key", "lib/fence", "lib/queue", "leave"),
		args:   (*writer).leave, decode: decodeRemoval,
	},
	wire.Latch: {
		script: newScript("lib/key", "lib/recovery", "lib/latch", "latch"),
		args:   (*writer).latch, decode: decodeLatch,
	},
	wire.Unlatch: {
		script: newScript("lib/key", "lib/recovery", "lib/latch", "unlatch"),
		args:   (*writer).unlatch, decode: decodeLatch,
	},
	wire.Shorten: {
		script: newScript("lib/key", "lib/announce", "lib/put", "lib/readers", "lib/book", "shorten"),
		args:   (*writer).shorten, decode: decodeRemoval,
	},
	wire.Once: {script: newScript("lib/key", "lib/recovery", "once"), args: (*writer).once, decode: decodeRecord},
	wire.Refresh: {
		script: newScript("lib/key", "lib/fence", "lib/put", "lib/queue", "lib/contend", "lib/readers", "lib/hindrance", "lib/book",
			"lib/pool", "refresh"),
		nameless: true, args: (*writer).refresh, decode: decodeStandings,
	},
	wire.Enlist: {script: newScript("lists"), args: (*writer).enlist, decode: decodeList},
}

var readerOperations = [...]operation{
	wire.Acquire: {
		script: newScript("lib/key", "lib/recovery", "lib/refusal", "lib/fence", "lib/put", "lib/queue", "lib/readers",
			"lib/hindrance", "acquireread"),
		args: (*writer).acquireRead, decode: decodeRights,
	},
	wire.Renew: {
		script: newScript("lib/key", "lib/recovery", "lib/fence", "lib/put", "lib/queue", "lib/readers", "renewread"),
		args:   (*writer).renewRead, decode: decodeRights,
	},
	wire.Release: {
		script: newScript("lib/key", "lib/fence", "lib/put", "lib/queue", "lib/announce", "lib/readers", "releaseread"),
		args:   (*writer).releaseRead, decode: decodeRemoval,
	},
}

var poolOperations = [...]operation{
	wire.Acquire: {script: newScript("permits_acquire"), formed: true, pools: true, args: (*writer).acquirePermits, decode: decodePermits},
	wire.Release: {script: newScript("permits_release"), formed: true, pools: true, args: (*writer).releasePermits, decode: decodeRemoval},
	wire.Leave: {
		script: newScript("lib/key", "lib/fence", "lib/queue", "lib/book", "lib/pool", "permits_leave"),
		pools:  true, nameless: true, args: (*writer).leavePool, decode: decodeRemoval,
	},
	wire.Resize: {
		script: newScript("lib/key", "lib/fence", "lib/queue", "lib/book", "lib/pool", "permits_resize"),
		pools:  true, nameless: true, args: (*writer).size, decode: decodeResize,
	},
}
