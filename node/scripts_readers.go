package node

import "github.com/quorumlock/quorumlock/internal/wire"

// readerScripts holds the scripts of operations with [wire.Op.Reads].
var readerScripts = [...]script{
	wire.Acquire: newScript("lib/key", "lib/recovery", "lib/refusal", "lib/fence", "lib/put", "lib/queue", "lib/readers", "lib/hindrance", "acquireread"),
	wire.Renew:   newScript("lib/key", "lib/recovery", "lib/fence", "lib/put", "lib/queue", "lib/readers", "renewread"),
	wire.Release: newScript("lib/key", "lib/fence", "lib/put", "lib/queue", "lib/announce", "lib/readers", "releaseread"),
}

// scriptOf returns the script of an operation that does not concern a pool.
func (w *writer) scriptOf(op *wire.Op) *script {
	if f, ok := scriptFormOf(op); ok {
		return w.form(f)
	}
	if op.Reads && op.Kind <= wire.Release {
		return w.ofSlot(&readerScripts[op.Kind])
	}
	return w.ofSlot(&scripts[op.Kind])
}
