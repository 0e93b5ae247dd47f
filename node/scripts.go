package node

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"strings"
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

// many does the work of the single scripts for a batch of operations.
var many = newScript("many")
