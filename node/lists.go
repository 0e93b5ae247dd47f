package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// ListsError is the cause behind [ErrLists].
type ListsError struct {
	// Own and Other are the names of the nodes of this program, and of the other one. A node may have two names.
	Own, Other []string
	// Holder is the Config.Holder of the other program: the last one that has used this list.
	Holder string
	// Left is how long the other list counts as in use, unless a program still uses it.
	Left time.Duration
}

// Error names both lists, what differs, and the way out.
func (e *ListsError) Error() string {
	return fmt.Sprintf("this program lists the nodes %s, and %s lists %s: two majorities of these need not share a node, so each program could get the same lock. "+
		"Only this one has %s, only the other one %s. Correct the list; to change it, add or remove one node at a time, "+
		"or stop all programs with the other list and wait %v",
		strings.Join(e.Own, ", "), e.Holder, strings.Join(e.Other, ", "), without(e.Own, e.Other), without(e.Other, e.Own), e.Left.Truncate(time.Second)+time.Second)
}

// without returns the names that are in one list and not in the other.
func without(names, others []string) string {
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	if len(left) == 0 {
		return "none"
	}
	return strings.Join(left, ", ")
}

// enlist adds the ARGV of the script lists.
func (w *writer) enlist(op *wire.Op) {
	l := op.List
	addresses, ids := wire.ListTexts(l.Own)
	w.add(milliseconds(l.Life), wire.Listable(l.Holder), l.NewID, addresses, ids)
	for _, other := range l.Agreed {
		addresses, ids := wire.ListTexts(other.Nodes)
		w.add(addresses, ids)
	}
}

// decodeList decodes {id, addresses, ids, client, left, ...}.
func decodeList(_ *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	if err != nil || len(values)%4 != 1 {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	id, err := values[0].ToString()
	list := &wire.ListReply{ID: id}
	for values = values[1:]; len(values) > 0 && err == nil; values = values[4:] {
		addresses, err1 := values[0].ToString()
		ids, err2 := values[1].ToString()
		holder, err3 := values[2].ToString()
		left, err4 := integers(values[3:4])
		if err = errors.Join(err1, err2, err3, err4); err == nil {
			list.Others = append(list.Others, wire.List{Nodes: wire.ParseList(addresses, ids), Holder: holder, Left: milli(left[0])})
		}
	}
	return wire.Reply{Outcome: wire.Inspected, List: list}, err
}
