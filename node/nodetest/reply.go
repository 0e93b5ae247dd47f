package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// reasons are the words for failures.
var reasons = map[string]error{
	"recovering": node.ErrRecovering, "settings": node.ErrSettings, "clock": node.ErrClock,
	"wrongtype": node.ErrWrongType, "closed": node.ErrClosed, "canceled": node.ErrCanceled,
}

// privilege is how long a free name is left to a woken waiter.
const privilege = 50 * time.Millisecond

// expected is what a line says of a reply.
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
			want.fields = append(want.fields, field.FindStringSubmatch(w.text))
		case w.text == "": // a variable that stands for nothing
		case slices.Contains([]string{"recovering", "restarted", "unmarked", "partial", "whole", "unsent"}, w.text):
			want.flags[w.text] = true
		default:
			want.args = append(want.args, w)
		}
	}
	return want
}

// says reports whether the line has this field.
func (want expected) says(key string) bool {
	return slices.ContainsFunc(want.fields, func(f []string) bool { return f[1] == key })
}

// check requires that a reply is as expected, and that it has no field that does not belong to it.
func (x *trial) check(op node.Op, r node.Reply, words []word) error {
	if words[0].is("-") {
		return nil
	}
	want := expect(words)
	if want.outcome == "yields" { // The name is left to another waiter.
		want.outcome = node.Denied.String()
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
			err = x.field(op, r, f[1], f[2], f[3])
		}
	}
	if err == nil && want.says("free") && !want.says("of") && r.Pool.Size != op.Pool.Size {
		err = errors.New("wrong size of the pool")
	}
	if err == nil {
		err = x.names(op, r, want)
	}
	if r.Marker != nil && r.Marker.Left > 0 {
		x.began = uint64(r.Marker.Until - r.Marker.Left.Microseconds())
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
func succeeded(op node.Op, r node.Reply, want expected) error {
	granted := r.Outcome == node.Granted || r.Outcome == node.Healed
	denied := r.Outcome == node.Denied
	pooled := op.Pool.Name != "" && denied
	latch := op.Kind == node.Latch || op.Kind == node.Unlatch
	reader := op.Kind == node.Acquire && op.Reads && granted
	restarted := r.HadMarker
	if r.Marker != nil {
		restarted = r.Marker.HadMarker
	}
	for what, wrong := range map[string]bool{
		"error":        r.Err != nil,
		"outcome":      r.Outcome.String() != want.outcome,
		"unsent":       r.Unsent,
		"holder":       !denied && r.Holder != node.Holder{},
		"rank":         !denied && r.Rank != 0,
		"pool":         !pooled && (r.Pool.Size != 0 || r.Pool.Version != 0 || r.Pool.Free != nil),
		"holders":      r.Outcome != node.Inspected && op.Kind != node.ForceRelease && len(r.Holders) > 0,
		"marker":       r.Marker != nil && op.Kind != node.Mark && !(op.Kind == node.Open && denied),
		"latch":        latch != (r.Latch != nil),
		"token":        !reader && !want.says("token") && r.Token != 0,
		"fence":        reader && r.Token == 0,
		"recovering":   !latch && !want.says("recovering") && want.flags["recovering"] != (r.Recovering > 0),
		"had a marker": !latch && want.flags["restarted"] != restarted,
		"unmarked":     want.flags["unmarked"] != r.Unmarked,
		"partial":      want.flags["partial"] != r.Partial,
		"ids":          op.Kind == node.Latch && !op.Latch.List && len(r.Latch.IDs) > 0,
		"whole":        r.Latch != nil && want.flags["whole"] != r.Latch.Whole,
	} {
		if wrong {
			return fmt.Errorf("wrong %s", what)
		}
	}
	return nil
}

// failed requires the form that all errors have.
func (x *trial) failed(reason error, op node.Op, r node.Reply, want expected) error {
	var err *node.Error
	if !errors.Is(r.Err, reason) || !errors.As(r.Err, &err) {
		return fmt.Errorf("not %q", reason)
	}
	recovering := errors.Is(reason, node.ErrRecovering)
	permanent := slices.Contains([]error{node.ErrSettings, node.ErrWrongType, node.ErrClosed}, reason)
	rest := r
	rest.Err, rest.Unsent, rest.Recovering, rest.HadMarker, rest.Holders = nil, false, 0, false, nil
	var recovery *node.RecoveryError
	var settings *node.SettingsError
	switch {
	case err.Node != x.Node.Name() || err.Op != op.Kind || err.Permanent() != permanent:
		return errors.New("wrong error")
	case fmt.Sprintf("%+v", rest) != fmt.Sprintf("%+v", node.Reply{}) || len(r.Holders) > 0:
		return errors.New("a field beside the error")
	case r.Unsent != want.flags["unsent"] || r.HadMarker != want.flags["restarted"]:
		return errors.New("wrong flag")
	case !recovering && r.Recovering != 0:
		return errors.New("recovering")
	case recovering && (!errors.As(r.Err, &recovery) || recovery.Left != r.Recovering || recovery.HadMarker != r.HadMarker ||
		recovery.Left <= 0 || recovery.Left > recovery.Length):
		return errors.New("wrong recovery")
	case !want.says("ttl") && errors.As(r.Err, &settings) && settings.TTL != 0:
		return errors.New("a TTL")
	}
	return nil
}

// names compares the words that are neither fields nor flags.
func (x *trial) names(op node.Op, r node.Reply, want expected) error {
	if op.Kind == node.Latch && want.group != nil {
		ids := texts(want.group[0])
		slices.Sort(ids)
		if !slices.Equal(ids, r.Latch.IDs) || r.Latch.Size != len(ids) {
			return fmt.Errorf("not %d ids", len(ids))
		}
		return nil
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
		case err == nil && i != 0 && r.Outcome == node.Denied:
			if !about(r.Holder.TTL, d) {
				return errors.New("wrong TTL")
			}
		case err == nil && r.Outcome == node.Inspected:
			if slices.ContainsFunc(r.Holders, func(h node.Holder) bool { return !about(h.TTL, d) }) {
				return errors.New("wrong TTL")
			}
		case w.is("none") && r.Outcome == node.Inspected && len(r.Holders) == 0:
		case r.Outcome == node.Denied && i == 0 && r.Holder.Name == w.text:
		case r.Outcome == node.Denied && i == 1 && (r.Holder.Owner == w.text || w.is("-") && r.Holder.Owner == ""):
		default:
			return fmt.Errorf("not %.100q", w.text)
		}
	}
	return nil
}

// holder compares one holder with NAME OWNER TTL TOKEN, or "reads" instead of the token. A forced release tells none.
func (x *trial) holder(op node.Op, h node.Holder, words []word) error {
	d, err := time.ParseDuration(words[2].text)
	reads := words[len(words)-1].is("reads")
	if err != nil || h.Name != words[0].text || h.Owner != words[1].text || !about(h.TTL, d) || h.Reads != reads {
		return fmt.Errorf("not %q", texts(words))
	}
	if len(words) > 3 && !reads {
		token, err := x.number(words[3].text)
		if err != nil || h.Token != token {
			return fmt.Errorf("not token %d: %w", token, err)
		}
	} else if op.Kind == node.ForceRelease && h.Token != 0 {
		return errors.New("a token")
	}
	return nil
}

// about reports whether a TTL was d a moment ago.
func about(ttl, d time.Duration) bool { return ttl <= d && ttl > d-slack }

// field compares a field of a reply.
func (x *trial) field(op node.Op, r node.Reply, key, sign, text string) error {
	switch key {
	case "id":
		id := r.Marker.Identity
		if sign == ":=" {
			x.ids[text] = id
			return nil
		}
		if text == "node" {
			x.ids[text] = x.Node.Identity()
		}
		if (id == x.ids[text]) != (sign == "=") || id == "" {
			return fmt.Errorf("wrong identity %q", id)
		}
		return nil
	case "limits", "node":
		want, err := parseLimits(text)
		var settings *node.SettingsError
		switch {
		case err != nil:
			return err
		case r.Marker != nil && r.Marker.Limits == want:
		case errors.As(r.Err, &settings) && settings.Node == want && settings.Client == op.Limits:
		default:
			return errors.New("wrong limits")
		}
		return nil
	case "free":
		return free(r, text)
	}
	got, err := number(r, key)
	if err != nil {
		return err
	}
	if sign == ":=" {
		x.vars[text] = got
		return nil
	}
	want, err := x.number(text)
	if err != nil {
		return err
	}
	ok := map[string]bool{
		"=": got == want, "!=": got != want, "<": int64(got-want) < 0, ">": int64(got-want) > 0,
		"<=": int64(got-want) <= 0, ">=": int64(got-want) >= 0,
	}[sign]
	if !ok {
		return fmt.Errorf("%s is %d, and not %s %d", key, got, sign, want)
	}
	return nil
}

// free compares the free slots of a pool.
func free(r node.Reply, text string) error {
	var told, want []int
	for i := range 8 * len(r.Pool.Free) {
		if r.Pool.Free[i/8]&(1<<(i%8)) != 0 {
			told = append(told, i)
		}
	}
	for part := range strings.SplitSeq(text, ",") {
		if from, to, ok := strings.Cut(part, ".."); ok {
			want = append(want, numbers(from, to)...)
		} else if part != "none" {
			want = append(want, numbers(part, part)...)
		}
	}
	if !slices.Equal(told, want) || len(r.Pool.Free) != (r.Pool.Size+7)/8 {
		return fmt.Errorf("%v are free", told)
	}
	return nil
}

// number returns a field of a reply; durations are microseconds.
func number(r node.Reply, key string) (uint64, error) {
	var recovery *node.RecoveryError
	var clock *node.ClockError
	var settings *node.SettingsError
	errors.As(r.Err, &recovery)
	errors.As(r.Err, &clock)
	errors.As(r.Err, &settings)
	micros := func(d time.Duration) (uint64, error) { return uint64(d.Microseconds()), nil }
	switch {
	case key == "token" && r.Outcome == node.Denied:
		return r.Holder.Token, nil
	case key == "token":
		return r.Token, nil
	case key == "ttl" && settings != nil:
		return micros(settings.TTL)
	case key == "ttl":
		return micros(r.Holder.TTL)
	case key == "rank":
		return uint64(r.Rank), nil
	case key == "holders":
		return uint64(len(r.Holders)), nil
	case key == "recovering":
		return micros(r.Recovering)
	case key == "left" && recovery != nil:
		return micros(recovery.Left)
	case key == "length" && recovery != nil:
		return micros(recovery.Length)
	case key == "ahead" && clock != nil:
		return micros(clock.Ahead)
	case key == "limit" && clock != nil:
		return micros(clock.Limit)
	case key == "version":
		return r.Pool.Version, nil
	case key == "of":
		return uint64(r.Pool.Size), nil
	case key == "left" && r.Marker != nil:
		return micros(r.Marker.Left)
	case key == "until" && r.Marker != nil:
		return uint64(r.Marker.Until), nil
	case r.Latch == nil:
	case key == "gen":
		return r.Latch.Generation, nil
	case key == "to":
		return uint64(r.Latch.Count), nil
	case key == "since":
		return r.Latch.Since, nil
	case key == "last":
		return r.Latch.Last, nil
	case key == "until":
		return uint64(r.Latch.Until), nil
	case key == "born":
		return uint64(r.Latch.Born), nil
	case key == "size":
		return uint64(r.Latch.Size), nil
	}
	return 0, fmt.Errorf("the reply has no field %q", key)
}

// clockOf returns the node's clock from the refusal of a token.
func clockOf(token uint64, r node.Reply) uint64 {
	var err *node.ClockError
	errors.As(r.Err, &err)
	return token - uint64(err.Ahead.Microseconds())
}
