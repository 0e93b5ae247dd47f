package node

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

//go:embed scripts
var files embed.FS

// script is a Lua script and the digest by which a server caches it.
type script struct{ source, sha string }

// fixedKeys begins all scripts: those that use the marker or the fences have both at the end of KEYS.
const fixedKeys = "local MARKER, FENCES = KEYS[#KEYS - 1], KEYS[#KEYS]\n"

// newScript makes a script of a file.
func newScript(name string) script { return hashed(fixedKeys + source(name)) }

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

// scriptForm has the constants at the beginning of the scripts that servers run most: values that hardly
// change between the calls of a client. As arguments they would be parsed by each call, which costs a server
// about 1,000 instructions each.
type scriptForm struct {
	body   *script
	limits wire.Limits
	fair   bool
	// announce is set for releases that are announced to Redisson's clients.
	announce bool
	// queues is set for a batch that declares the queues of its names.
	queues bool
	// place is where INFO replication has the server's identity: see placeOf.
	place int
	// blind is set for a server that shows scripts no identity.
	blind bool
}

// formOf returns the form of an operation's script, which has one.
func formOf(op *wire.Op) scriptForm {
	f := scriptForm{body: &operationOf(op).script}
	switch op.Kind {
	case wire.Acquire:
		f.limits, f.fair = op.Limits, op.Fair
	case wire.Renew:
		f.limits = op.Limits
	default:
		f.announce = op.Announce
	}
	return f
}

// formOfMany returns the form of the script for a batch of operations like this one.
func formOfMany(op *wire.Op, queues bool) scriptForm {
	return scriptForm{body: &many, limits: op.Limits, queues: queues}
}

// header returns the Lua text of the form:
//
//	MAX_TTL, MAX_SKEW  the limits in ms, and
//	RECOVERY, RECOVERS how long a node recovers, in ms, as a number and as text
//	LONGEST            MAX_TTL as text
//	SEAL               how the field open ends if RECOVERY is the longest recovery that is over
//	OLDEST, NEWEST     by how many seconds the second of a token may differ from the node's, so that the
//	                   token is plausible whatever the fractions are
//	SETTLED            the same in seconds, rounded up
//	FAIR, ANNOUNCE     see [wire.Op]
//	QUEUES             whether a batch declares the queues of its names
//	FROM, TO           where INFO replication usually has the identity, with the name of its field
func (f scriptForm) header() string {
	ttl, skew, recovery := f.limits.MaxTTL.Milliseconds(), f.limits.MaxClockSkew.Milliseconds(), f.limits.Recovery().Milliseconds()
	const second = int64(time.Second / time.Millisecond)
	return fmt.Sprintf(`local MAX_TTL, MAX_SKEW, RECOVERY, RECOVERS, LONGEST, SEAL = %d, %d, %d, '%[3]d', '%d', ' %d'
local OLDEST, NEWEST, SETTLED = %d, %d, %d
local FAIR, ANNOUNCE, QUEUES = %t, %t, %t
local FROM, TO = %d, %d
`, ttl, skew, recovery, ttl, recovery, 1-ttl/second, skew/second-1, min((recovery+second-1)/second, maxRecovery),
		f.fair, f.announce, f.queues, f.place, f.place+identityLength-1)
}

// identityField begins the line of the identity in INFO replication. With it, that has identityLength characters.
const (
	identityField  = "master_replid:"
	identityLength = len(identityField) + 40
)

// placeOf returns where scripts find the identity in INFO replication, counted from 1. It depends on the product and
// its version. With replicas the place changes all the time, so scripts search for the identity; so they do for 0.
func placeOf(info string) int {
	const title = "# Replication"
	_, section, _ := strings.Cut(info, title)
	at := strings.Index(section, identityField)
	if at < 0 || infoField(section, "connected_slaves") != "0" {
		return 0
	}
	return len(title) + at + 1
}

// maxRecovery is 34 years, in seconds. A script that goes back further could reach times before 1970, where
// the comparison of tokens as text fails. No clock is that far behind.
const maxRecovery = 1 << 30

// script returns the script in this form.
func (f scriptForm) script() script {
	return hashed(f.header() + fitted(f.body.source, f.blind))
}

// formCache holds the scripts that one writer has made so far.
type formCache map[scriptForm]*script

// maxForms bounds the size of a formCache: a client needs a handful.
const maxForms = 64

func (fs *formCache) of(f scriptForm) *script {
	if s, ok := (*fs)[f]; ok {
		return s
	}
	if *fs == nil || len(*fs) == maxForms {
		*fs = make(formCache)
	}
	s := f.script()
	(*fs)[f] = &s
	return &s
}
