package node

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

//go:embed scripts
var files embed.FS

// script is a Lua script and the digest by which a server caches it.
type script struct{ source, sha string }

// newScript makes a script of files.
func newScript(parts ...string) script { return hashed(source(parts...)) }

func hashed(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// source joins the text of files, with their includes.
func source(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		text, err := files.ReadFile("scripts/" + part + ".lua")
		if err != nil {
			panic(err) // by construction
		}
		for line := range strings.Lines(string(text)) {
			if included, ok := strings.CutPrefix(strings.TrimSpace(line), "-- include "); ok {
				line = source(included)
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// scripts holds the script of each kind of operation. Those with a [scriptForm] begin with its header.
var scripts = [...]script{
	wire.Acquire:      newScript("acquire"),
	wire.Renew:        newScript("renew"),
	wire.Release:      newScript("release"),
	wire.Inspect:      newScript("lib/key", "lib/fence", "lib/put", "lib/readers", "inspect"),
	wire.ForceRelease: newScript("lib/key", "lib/fence", "lib/queue", "lib/announce", "lib/put", "lib/readers", "forcerelease"),
	wire.Mark:         newScript("lib/recovery", "lib/state", "mark"),
	wire.Open:         newScript("lib/recovery", "lib/state", "open"),
	wire.Leave:        newScript("lib/key", "lib/fence", "lib/queue", "leave"),
	wire.Latch:        newScript("lib/key", "lib/recovery", "lib/latch", "latch"),
	wire.Unlatch:      newScript("lib/key", "lib/recovery", "lib/latch", "unlatch"),
	wire.Shorten:      newScript("lib/key", "lib/announce", "lib/put", "lib/readers", "shorten"),
	wire.Once:         newScript("lib/key", "lib/recovery", "once"),
}

// many does the work of the single scripts for a batch of operations.
var many = newScript("many")
