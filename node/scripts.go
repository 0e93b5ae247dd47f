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
func newScript(parts ...string) script {
	var source strings.Builder
	for _, part := range parts {
		text, err := files.ReadFile("scripts/" + part + ".lua")
		if err != nil {
			panic(err) // by construction
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String())) //nolint:gosec // see above
	return script{source: source.String(), sha: hex.EncodeToString(sum[:])}
}

// scripts holds the script of each kind of operation.
var scripts = [...]script{
	Acquire:      newScript("lib/key", "lib/raise", "lib/guard", "lib/queue", "acquire"),
	Renew:        newScript("lib/key", "lib/raise", "lib/guard", "renew"),
	Release:      newScript("lib/key", "lib/queue", "lib/announce", "release"),
	Inspect:      newScript("lib/key", "inspect"),
	ForceRelease: newScript("lib/key", "lib/queue", "lib/announce", "forcerelease"),
	Mark:         newScript("lib/guard", "lib/state", "mark"),
	Open:         newScript("lib/guard", "lib/state", "open"),
	Leave:        newScript("lib/key", "lib/queue", "leave"),
}
