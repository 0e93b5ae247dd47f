package nodetest

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

var reasons = map[string]error{
	"recovering": node.ErrRecovering, "settings": node.ErrSettings, "clock": node.ErrClock,
	"wrongtype": node.ErrWrongType, "closed": node.ErrClosed, "canceled": node.ErrCanceled, "misconfigured": node.ErrMisconfigured,
}

// privilege is how long a free name is left to a woken waiter.
const privilege = 50 * time.Millisecond

type expected struct {
	outcome string
	args    []word
	fields  [][]string
	flags   map[string]bool
	group   [][]word
}

func expect(words []word) (want expected) {
	want.outcome, want.flags = words[0].text, map[string]bool{}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w.is("("):
			end := i + slices.IndexFunc(words[i:], func(w word) bool { return w.is(")") })
			want.group = append(want.group, words[i+1:end])
			i = end
		case w.plain && field.MatchString(w.text):
			f := field.FindStringSubmatch(w.text)
			f[3] = rangeIn.ReplaceAllStringFunc(f[3], listed)
			want.fields = append(want.fields, f)
		case w.text == "": // a variable that stands for nothing
		case slices.Contains([]string{"recovering", "restarted", "unmarked", "partial", "whole", "unsent"}, w.text):
			want.flags[w.text] = true
		default:
			want.args = append(want.args, w)
		}
	}
	return want
}

// rangeIn is a range of numbers in a list, and listed the numbers of it.
var rangeIn = regexp.MustCompile(`\d+\.\.\d+`)

func listed(text string) string {
	from, to, _ := strings.Cut(text, "..")
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers(from, to)), " ", ","), "[]")
}

func (want expected) says(key string) bool {
	return slices.ContainsFunc(want.fields, func(f []string) bool { return f[1] == key })
}

// check requires that a reply is as expected, and that it has no field that does not belong to it.
func (x *trial) check(op wire.Op, r wire.Reply, words []word) error {
	if words[0].is("-") {
		return nil
	}
	want := expect(words)
	if want.outcome == "yields" { // The name is left to another waiter.
		want.outcome = wire.Denied.String()
		want.args = append(want.args, word{"-", true})
		if r.Holder.TTL <= 0 || r.Holder.TTL > privilege {
			return fmt.Errorf("it is not left to another waiter: %+v", r)
		}
	}
	var err error
	if reason, ok := reasons[want.outcome]; ok {
		err = x.failed(reason, op, r, want)
	} else {
		err = succeeded(op, r, want)
	}
	for _, f := range want.fields {
		if err == nil {
			err = x.field(r, f[1], f[2], f[3])
		}
	}
	if free := len(r.Pool.Free); err == nil && want.says("free") && (free != (r.Pool.Size+7)/8 || !want.says("of") && r.Pool.Size != op.Pool.Size) {
		err = errors.New("wrong size of the pool")
	}
	if err == nil {
		err = x.names(op, r, want)
	}
	if r.Marker != nil && r.Marker.Left > 0 {
		x.began = nowOf(r.Marker, op.Limits)
	}
	switch {
	case err == nil:
		return nil
	case r.Err != nil:
		return fmt.Errorf("%w: %w", err, r.Err)
	default:
		return fmt.Errorf("%w: %+v, marker %+v, latch %+v", err, r, r.Marker, r.Latch)
	}
}

// succeeded requires an outcome, and that fields which the line does not mention are empty.
func succeeded(op wire.Op, r wire.Reply, want expected) error {
	granted := r.Outcome == wire.Granted || r.Outcome == wire.Healed
	denied := r.Outcome == wire.Denied
	pooled := op.Pool.Name != "" && denied
	latch := op.Kind == wire.Latch || op.Kind == wire.Unlatch
	reader := op.Kind == wire.Acquire && op.Reads && granted
	restarted := r.HadMarker
	if r.Marker != nil {
		restarted = r.Marker.HadMarker
	}
	for what, wrong := range map[string]bool{
		"error":        r.Err != nil,
		"outcome":      r.Outcome.String() != want.outcome,
		"unsent":       r.Unsent,
		"holder":       !denied && r.Holder != wire.Holder{},
		"rank":         !denied && r.Rank != 0,
		"pool":         !pooled && (r.Pool.Size != 0 || r.Pool.Version != 0 || r.Pool.Free != nil),
		"holders":      r.Outcome != wire.Inspected && op.Kind != wire.ForceRelease && len(r.Holders) > 0,
		"marker":       r.Marker != nil && op.Kind != wire.Mark && (op.Kind != wire.Open || !denied),
		"latch":        latch != (r.Latch != nil),
		"token":        !reader && !want.says("token") && r.Token != 0,
		"fence":        reader && r.Token == 0,
		"recovering":   !latch && !want.says("recovering") && want.flags["recovering"] != (r.Recovering > 0),
		"had a marker": want.flags["restarted"] != restarted && (!latch || r.Recovering == 0),
		"unmarked":     want.flags["unmarked"] != r.Unmarked,
		"partial":      want.flags["partial"] != r.Partial,
		"standings":    op.Kind != wire.Refresh && len(r.Standings) > 0,
		"ids":          op.Kind == wire.Latch && !op.Latch.List && len(r.Latch.IDs) > 0,
		"whole":        r.Latch != nil && want.flags["whole"] != r.Latch.Whole,
	} {
		if wrong {
			return fmt.Errorf("wrong %s", what)
		}
	}
	return nil
}

func (x *trial) failed(reason error, op wire.Op, r wire.Reply, want expected) error {
	var err *node.Error
	if !errors.Is(r.Err, reason) || !errors.As(r.Err, &err) {
		return errors.New("not " + reason.Error())
	}
	recovery, settings := &node.RecoveryError{}, &node.SettingsError{Own: op.Limits}
	errors.As(r.Err, &recovery)
	errors.As(r.Err, &settings)
	rest := r
	rest.Err, rest.Unsent, rest.Recovering, rest.HadMarker = nil, false, 0, false
	if len(rest.Holders) == 0 {
		rest.Holders = nil
	}
	permanent := slices.Contains([]error{node.ErrSettings, node.ErrWrongType, node.ErrClosed}, reason)
	for what, wrong := range map[string]bool{
		"node or operation":      err.Node != x.Node.Name() || err.Op != op.Kind.String(),
		"permanence":             err.Permanent() != permanent,
		"field beside the error": !reflect.DeepEqual(rest, wire.Reply{}),
		"unsent":                 r.Unsent != want.flags["unsent"],
		"had a marker":           r.HadMarker != want.flags["restarted"] || r.HadMarker != recovery.HadMarker,
		"recovery":               r.Recovering != recovery.Left || recovery.Left > recovery.Length,
		"end of a recovery":      reason == node.ErrRecovering && recovery.Left <= 0, //nolint:errorlint // it is one of reasons
		"limits of the client":   settings.Own != op.Limits,
		"TTL beyond the limits":  settings.TTL != 0 && !want.says("ttl"),
	} {
		if wrong {
			return fmt.Errorf("wrong %s", what)
		}
	}
	return nil
}

// names compares the words that are neither fields nor flags.
func (x *trial) names(op wire.Op, r wire.Reply, want expected) error {
	if op.Kind == wire.Latch && want.group != nil {
		ids := texts(want.group[0])
		slices.Sort(ids)
		if !slices.Equal(ids, r.Latch.IDs) || r.Latch.Size != len(ids) {
			return fmt.Errorf("not %d ids", len(ids))
		}
		return nil
	}
	if op.Kind == wire.Refresh {
		return standings(r.Standings, want.group)
	}
	if want.group != nil {
		if len(want.group) != len(r.Holders) {
			return fmt.Errorf("not %d holders", len(want.group))
		}
		for i, words := range want.group {
			candidates := r.Holders[i : i+1]
			if words[len(words)-1].is("reads") { // Readers have no order.
				candidates = r.Holders
			}
			var err error
			for _, h := range candidates {
				if err = x.holder(op, h, words); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
		}
	}
	for i, w := range want.args {
		switch d, err := time.ParseDuration(w.text); {
		case err == nil && i != 0 && r.Outcome == wire.Denied:
			if !about(r.Holder.TTL, d) {
				return errors.New("wrong TTL")
			}
		case err == nil && r.Outcome == wire.Inspected:
			if slices.ContainsFunc(r.Holders, func(h wire.Holder) bool { return !about(h.TTL, d) }) {
				return errors.New("wrong TTL")
			}
		case w.is("none") && r.Outcome == wire.Inspected && len(r.Holders) == 0:
		case r.Outcome == wire.Denied && i == 0 && r.Holder.Name == w.text:
		case r.Outcome == wire.Denied && i == 1 && (r.Holder.Owner == w.text || w.is("-") && r.Holder.Owner == ""):
		default:
			return fmt.Errorf("not %.100q", w.text)
		}
	}
	return nil
}

// standings compares each with NAME OWNER TTL RANK. NAME - RANK says that the name is left to another waiter, come that
// nobody is in the way, and unknown that the node cannot tell.
func standings(got []wire.Standing, want [][]word) error {
	if len(got) != len(want) {
		return fmt.Errorf("not %d standings", len(want))
	}
	for i, s := range got {
		words, h := texts(want[i]), s.Holder
		var ok bool
		switch {
		case words[0] == "come":
			ok = s.Known && h == (wire.Holder{})
		case words[0] == "unknown":
			ok = s == (wire.Standing{})
		case words[1] == "-":
			ok = h.Name == words[0] && h.Owner == "" && h.TTL > 0 && h.TTL <= 10*privilege && strconv.Itoa(s.Rank) == words[2]
		default:
			d, err := time.ParseDuration(words[2])
			ok = err == nil && h.Name == words[0] && h.Owner == words[1] && about(h.TTL, d) && strconv.Itoa(s.Rank) == words[3]
		}
		if !ok {
			return fmt.Errorf("standing %d is not %q", i+1, words)
		}
	}
	return nil
}

// holder compares one holder with NAME OWNER TTL TOKEN, or "reads" instead of the token. A forced release tells none.
func (x *trial) holder(op wire.Op, h wire.Holder, words []word) error {
	d, err := time.ParseDuration(words[2].text)
	reads := words[len(words)-1].is("reads")
	if err != nil || h.Name != words[0].text || h.Owner != words[1].text || !about(h.TTL, d) || h.Reads != reads {
		return fmt.Errorf("not %q", texts(words))
	}
	if len(words) > 3 && !reads {
		if token := x.number(words[3].text); h.Token != token {
			return fmt.Errorf("not token %d", token)
		}
	} else if op.Kind == wire.ForceRelease && h.Token != 0 {
		return errors.New("a token")
	}
	return nil
}

// about reports whether a TTL was d a moment ago.
func about(ttl, d time.Duration) bool { return ttl <= d && ttl > d-slack }

// field compares a field of a reply, or keeps it in a variable.
func (x *trial) field(r wire.Reply, key, sign, text string) error {
	if words, ok := x.texts(r)[key]; ok {
		if sign == ":=" {
			x.ids[text] = words
		} else if (words == cmp.Or(x.ids[text], text)) != (sign == "=") {
			return fmt.Errorf("%s is %q", key, words)
		}
		return nil
	}
	got, ok := fields(r)[key]
	if !ok {
		return fmt.Errorf("the reply has no field %q", key)
	}
	if sign == ":=" {
		x.vars[text] = got
		return nil
	}
	tokens := x.tokens
	want := x.number(text)
	if x.tokens != tokens {
		x.malformed("%q has no value", text)
	}
	ahead := int64(got - want)
	if !map[string]bool{
		"=": ahead == 0, "!=": ahead != 0, "<": ahead < 0, ">": ahead > 0, "<=": ahead <= 0, ">=": ahead >= 0,
	}[sign] {
		return fmt.Errorf("%s is %d, and not %s %d", key, got, sign, want)
	}
	return nil
}

// texts are the fields of a reply that are no numbers.
func (x *trial) texts(r wire.Reply) map[string]string {
	texts := map[string]string{}
	if r.Marker != nil {
		texts["id"] = r.Marker.Identity
		x.ids["node"], _ = x.Node.Server()
	}
	if r.Outcome == wire.Denied {
		free := []string{}
		for i := range 8 * len(r.Pool.Free) {
			if r.Pool.Free[i/8]&(1<<(i%8)) != 0 {
				free = append(free, strconv.Itoa(i))
			}
		}
		texts["free"] = cmp.Or(strings.Join(free, ","), "none")
	}
	return texts
}

// nowOf returns the node's clock from the marker of a node that recovers.
func nowOf(m *wire.Marker, l wire.Limits) uint64 {
	return uint64(m.Since + (l.Recovery() - m.Left).Microseconds())
}

// fields are the numbers in a reply; durations are microseconds.
func fields(r wire.Reply) map[string]uint64 {
	micros := func(d time.Duration) uint64 { return uint64(d.Microseconds()) }
	all := map[string]uint64{
		"token": r.Token, "ttl": micros(r.Holder.TTL), "rank": uint64(r.Rank), "holders": uint64(len(r.Holders)),
		"recovering": micros(r.Recovering), "version": r.Pool.Version, "of": uint64(r.Pool.Size),
	}
	if r.Outcome == wire.Denied {
		all["token"] = r.Holder.Token
	}
	var recovery *node.RecoveryError
	if errors.As(r.Err, &recovery) {
		all["left"], all["length"] = micros(recovery.Left), micros(recovery.Length)
	}
	var clock *node.ClockError
	if errors.As(r.Err, &clock) {
		all["ahead"], all["limit"] = micros(clock.Ahead), micros(clock.Limit)
	}
	var settings *node.SettingsError
	if errors.As(r.Err, &settings) {
		all["ttl"] = micros(settings.TTL)
	}
	if m := r.Marker; m != nil {
		all["left"], all["since"] = micros(m.Left), uint64(m.Since)
	}
	if l := r.Latch; l != nil {
		all["gen"], all["to"], all["since"], all["last"] = l.Generation, uint64(l.Count), l.Since, l.Last
		all["lost"], all["born"], all["size"] = uint64(l.Lost), uint64(l.Born), uint64(l.Size)
	}
	return all
}

// clockOf returns the node's clock from the refusal of a token.
func clockOf(token uint64, r wire.Reply) uint64 {
	var err *node.ClockError
	errors.As(r.Err, &err)
	return token - uint64(err.Ahead.Microseconds())
}
