package node

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// ListsError is the cause behind [ErrLists].
type ListsError struct {
	// Own and Other are the names of the nodes of this program, and of the other one. A node may have two names. OnlyOwn and
	// OnlyOther are those that are not known to be the same node.
	Own, Other, OnlyOwn, OnlyOther []string
	// Holder is the Config.Holder of the other program: the last one that has used this list.
	Holder string
	// Left is how long the other list counts as in use, unless a program still uses it.
	Left time.Duration
}

// Error names both lists, what differs, and the way out.
func (e *ListsError) Error() string {
	var differ []string
	for whose, names := range [][]string{e.OnlyOwn, e.OnlyOther} {
		if len(names) > 0 {
			differ = append(differ, fmt.Sprintf("only %s one has %s", []string{"this", "the other"}[whose], strings.Join(names, ", ")))
		}
	}
	return fmt.Sprintf("this program lists the nodes %s, and %s lists %s (%s): two majorities of these need not share a node, so each program could get the same lock. "+
		"Correct the list; to change it, add or remove one node at a time (docs/on-call.md), or stop all programs with the other list and wait %v",
		strings.Join(e.Own, ", "), e.Holder, strings.Join(e.Other, ", "), strings.Join(differ, ", "), e.Left.Truncate(time.Second)+time.Second)
}

// enlist adds the ARGV of the script lists.
func (w *writer) enlist(op *wire.Op) {
	l := op.List
	w.add(milliseconds(l.Own.Left), wire.Listable(l.Own.Holder), l.NewID)
	for _, list := range append([]wire.List{l.Own}, l.Agreed...) {
		w.add(cmp.Or(list.Field, list.Terms.String()+"\n"+strings.Join(list.Addresses, "\n")), strings.Join(list.IDs, "\n"))
	}
}

// decodeList decodes {id, addresses, ids, client, left, ...}.
func decodeList(_ *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	texts, err := msg.AsStrSlice()
	if err != nil || len(texts)%4 != 1 {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	list := &wire.ListReply{ID: texts[0]}
	for texts = texts[1:]; len(texts) > 0; texts = texts[4:] {
		left, err := strconv.ParseInt(texts[3], 10, 64)
		other := wire.List{Addresses: strings.Split(texts[0], "\n"), IDs: strings.Split(texts[1], "\n"), Field: texts[0], Holder: texts[2], Left: milli(left)}
		other.Terms = wire.ParseTerms(other.Addresses[0])
		if other.Terms.Protocol > 0 {
			other.Addresses = other.Addresses[1:]
		}
		if err != nil || len(other.IDs) != len(other.Addresses) && other.Terms.Speak(wire.TermsFor(wire.Limits{})) {
			return wire.Reply{}, errors.Join(err, errForm)
		}
		list.Others = append(list.Others, other)
	}
	return wire.Reply{Outcome: wire.Inspected, List: list}, nil
}
