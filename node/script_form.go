package node

import (
	"fmt"
	"time"
)

// scriptForm is what the scripts that servers run most have at their beginning as constants: what hardly
// changes between the calls of a client. Arguments would be read anew by each call, and cost a server
// some 1,000 instructions each.
type scriptForm struct {
	kind   Kind // Acquire, Renew or Release; or 0 for many
	limits Limits
	tagged bool // whether the names have a hash tag, or might
	fair   bool
	// announce is set for releases of which Redisson's clients are told.
	announce bool
}

// scriptFormOf is the form of an operation's script, if it has one.
func scriptFormOf(op *Op) (f scriptForm, ok bool) {
	if op.Kind > Release || op.Reads || op.ofPool() {
		return scriptForm{}, false
	}
	f = scriptForm{kind: op.Kind, tagged: tagged(op.Names[0])}
	switch op.Kind {
	case Acquire:
		f.limits, f.fair = op.Limits, op.Fair
	case Renew:
		f.limits = op.Limits
	default:
		f.announce = op.Announce
	}
	return f, true
}

// formOfMany is the form of the script for many operations like this one.
func formOfMany(op *Op) scriptForm { return scriptForm{limits: op.Limits, tagged: tagged(op.Names[0])} }

// header is the form as the script has it:
//
//	MAX_TTL, MAX_SKEW  the limits in ms
//	LIMITS             the end of what a marker says of an open node
//	OLDEST, NEWEST     by how many seconds the second of a token may differ from the node's, for it to
//	                   be plausible whatever the fractions are
//	RECOVERY           how long a recovery lasts, in seconds, rounded up
//	QUEUE, FENCE       what stands before a name where something is kept for it, REST behind
//	FAIR, ANNOUNCE     see [Op]
func (f scriptForm) header() string {
	ttl, skew := f.limits.MaxTTL.Milliseconds(), f.limits.MaxClockSkew.Milliseconds()
	before, behind := keyAffixes(f.tagged)
	const second = int64(time.Second / time.Millisecond)
	return fmt.Sprintf(`local MAX_TTL, MAX_SKEW, LIMITS = %d, %d, ' %d %d'
local OLDEST, NEWEST, RECOVERY = %d, %d, %d
local QUEUE, FENCE, REST = 'quorumlock:queue:%s', 'quorumlock:fence:%s', '%s'
local FAIR, ANNOUNCE = %t, %t
`, ttl, skew, ttl, skew, 1-ttl/second, skew/second-1, min((ttl+skew+second-1)/second, maxRecovery),
		before, before, behind, f.fair, f.announce)
}

// maxRecovery is 34 years, in seconds. A script that goes back by more may come to before 1970, where
// tokens are not compared as text any more; and no clock is so far behind.
const maxRecovery = 1 << 30

// script is the script in this form.
func (f scriptForm) script() script {
	body := &many
	if f.kind != 0 {
		body = &scripts[f.kind]
	}
	return hashed(f.header() + body.source)
}

// formCache are the scripts that one sender has made so far.
type formCache map[scriptForm]*script

// maxForms bounds how many are kept: a client has a handful.
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
