package node

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	_ "embed"
	"encoding/hex"
)

//go:embed scripts/acquire.lua
var acquireLua string

//go:embed scripts/renew.lua
var renewLua string

//go:embed scripts/release.lua
var releaseLua string

//go:embed scripts/inspect.lua
var inspectLua string

//go:embed scripts/forcerelease.lua
var forceReleaseLua string

// script is a Lua script and the name under which a server caches it.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// scripts holds the script of each kind of operation.
var scripts = [...]script{
	Acquire:      newScript(acquireLua),
	Renew:        newScript(renewLua),
	Release:      newScript(releaseLua),
	Inspect:      newScript(inspectLua),
	ForceRelease: newScript(forceReleaseLua),
}
