package node

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed scripts
var files embed.FS

// script is a Lua script and the name under which a server caches it.
type script struct{ source, sha string }

// newScript puts a script together from the functions that it calls and its own file.
func newScript(parts ...string) script { return hashed(source(parts...)) }

func hashed(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// source is the text of some files, one behind the other.
func source(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		text, err := files.ReadFile("scripts/" + part + ".lua")
		if err != nil {
			panic(err) // by construction
		}
		b.Write(text)
	}
	return b.String()
}

// scripts holds the script of each kind of operation.
var scripts = [...]script{
	Acquire: newScript("lib/key", "lib/number", "lib/guard", "lib/refusal", "lib/fence", "lib/put", "lib/take", "acquire",
		"lib/raise", "lib/queue", "lib/contend", "contend"),
	Renew:        newScript("lib/key", "lib/guard", "lib/fence", "lib/raise", "lib/put", "lib/prolong", "renew"),
	Release:      newScript("lib/key", "lib/announce", "lib/give", "release", "lib/queue", "wake"),
	Inspect:      newScript("lib/key", "lib/put", "lib/readers", "inspect"),
	ForceRelease: newScript("lib/key", "lib/queue", "lib/announce", "lib/put", "lib/readers", "forcerelease"),
	Mark:         newScript("lib/guard", "lib/state", "mark"),
	Open:         newScript("lib/guard", "lib/state", "open"),
	Leave:        newScript("lib/key", "lib/queue", "leave"),
	Latch:        newScript("lib/key", "lib/guard", "lib/latch", "latch"),
	Unlatch:      newScript("lib/key", "lib/guard", "lib/latch", "unlatch"),
}

// many does what the scripts of operations do, for many of them. Each call of a script makes its
// functions anew: those that only contention and recovery need, when they do.
var many = hashed(source("lib/key", "lib/number", "lib/guard", "lib/refusal", "lib/fence", "lib/put", "lib/take",
	"lib/extend", "lib/announce", "lib/give") +
	"local function rarely()\n" + source("lib/raise", "lib/queue", "lib/contend", "lib/prolong") +
	"return {queues = queues, contend = contend, prolong = prolong}\nend\n" +
	source("many"))
