package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	callLine   = `{"client":"c1","op":1,"kind":"acquire","name":"job","call":10}` + "\n"
	returnLine = `{"client":"c1","op":1,"kind":"acquire","name":"job","owner":"o","token":5,"call":10,"return":20}` + "\n"
	permitLine = `{"client":"c1","op":5,"kind":"acquire","of":"semaphore","name":"job","owner":"o","token":5,"permits":2,"slots":[0,3],"size":5,"call":10,"return":20}` + "\n"
	downLine   = `{"client":"c1","op":7,"kind":"countdown","of":"latch","name":"job","id":"a","call":40,"return":50}` + "\n"
	actLine    = `{"client":"c1","op":2,"kind":"act","name":"job","lease":1,"owner":"o","token":5,"call":20,"return":30}` + "\n"
)

func TestReadMergesCallAndReturn(t *testing.T) {
	for _, text := range []string{callLine + returnLine + actLine, actLine + returnLine + callLine, "\n" + returnLine + "\n" + actLine} {
		h, err := Read(strings.NewReader(text))
		require.NoError(t, err)
		require.Len(t, h.Events(), 2)
		require.Equal(t, 20*time.Nanosecond, h.Events()[0].Return)
	}
}

func TestTornLastLineIsLeftOut(t *testing.T) {
	whole := strings.TrimSuffix(actLine, "\n")
	for cut := range len(whole) {
		h, err := Read(strings.NewReader(callLine + returnLine + whole[:cut]))
		require.NoError(t, err)
		require.Len(t, h.Events(), 1, "cut at %d", cut)
	}
	h, err := Read(strings.NewReader(callLine + returnLine + whole))
	require.NoError(t, err)
	require.Len(t, h.Events(), 2, "the last event lacks only the end of its line")
}

func TestReadNamesTheLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"torn in the middle", callLine + `{"client":"c1","op` + "\n" + returnLine, "line 2: invalid character"},
		{"torn, with an end of the line", callLine + `{"client":` + "\n", "line 2: unexpected end"},
		{"another type", callLine + `{"client":7}`, "line 2: json: cannot unmarshal number"},
		{"no client", strings.Replace(callLine, "c1", "", 1), `line 1: "" is no name of a client`},
		{"no number", strings.Replace(callLine, `"op":1`, `"op":0`, 1), "line 1: no number of the operation"},
		{"no such kind", strings.Replace(callLine, "acquire", "steal", 1), `line 1: no kind is called "steal"`},
		{"no name", strings.Replace(callLine, `"job"`, `""`, 1), `line 1: "" is no name of an object`},
		{"no call", strings.Replace(callLine, `"call":10`, `"call":0`, 1), "line 1: a call at 0"},
		{"a return before the call", strings.Replace(returnLine, `:20`, `:9`, 1), "line 1: a return at 9 of a call at 10"},
		{"far in the future", strings.Replace(returnLine, `:20`, `:9223372036854775807`, 1), "line 1: a return at 9223372036854775807"},
		{"a grant without a token", strings.Replace(returnLine, `"token":5,`, "", 1), "line 1: a grant without owner and token"},
		{"a token without a grant", strings.Replace(callLine, `"call"`, `"token":5,"call"`, 1), "line 1: owner or token without a grant"},
		{"an error without a return", strings.Replace(callLine, `"call"`, `"error":"no","call"`, 1), "line 1: an error without a return"},
		{"an acquisition of a lease", strings.Replace(callLine, `"call"`, `"lease":3,"call"`, 1), "line 1: an acquisition for a lease"},
		{"an act of no lease", returnLine + strings.Replace(actLine, `"lease":1,`, "", 1), "line 2: act without owner, token and number of the lease"},
		{"an act of an unknown lease", actLine, "line 1: act of lease 1, which client c1 was not granted"},
		{"an act of a lease without a return", callLine + actLine, "line 2: act of lease 1, which client c1 was not granted"},
		{"an act of another's lease", returnLine + strings.Replace(actLine, "c1", "c2", 1), "line 2: act of lease 1, which client c2 was not granted"},
		{"an act with another token", returnLine + strings.Replace(actLine, `:5`, `:6`, 1), "line 2: act of lease 1, which has another owner, token or name at line 1"},
		{"an act before the grant", returnLine + strings.Replace(actLine, `"call":20`, `"call":19`, 1), "line 2: act of lease 1 before it was granted at line 1"},
		{"a loss without a time", returnLine + strings.NewReplacer(`"act"`, `"lost"`, `,"return":30`, "").Replace(actLine), "line 2: a loss without a time"},
		{"a reader's act of a writer's lease", returnLine + strings.Replace(actLine, `"call"`, `"reads":true,"call"`, 1), "line 2: act of lease 1, which has another owner, token or name at line 1"},
		{"no such type", strings.Replace(callLine, `"name"`, `"of":"barrier","name"`, 1), `line 1: no type is called "barrier"`},
		{"a kind of another type", strings.Replace(callLine, `"name"`, `"of":"latch","name"`, 1), `line 1: no kind of a latch is called "acquire"`},
		{"permits of a lock", strings.Replace(callLine, `"call"`, `"permits":1,"call"`, 1), "line 1: acquire of 1 permits"},
		{"a size of a lock", strings.Replace(callLine, `"call"`, `"size":1,"call"`, 1), "line 1: acquire with 1 permits in all"},
		{"an id of a lock", strings.Replace(callLine, `"call"`, `"id":"a","call"`, 1), `line 1: acquire with the id "a"`},
		{"a number of a lock", strings.Replace(callLine, `"call"`, `"count":1,"call"`, 1), "line 1: acquire of 1"},
		{"no permits", strings.Replace(permitLine, `"permits":2`, `"permits":0`, 1), "line 1: acquire of 0 permits"},
		{"a semaphore without a size", strings.Replace(permitLine, `"size":5,`, "", 1), "line 1: acquire with 0 permits in all"},
		{"too few slots", strings.Replace(permitLine, `[0,3]`, "[0]", 1), "line 1: slots [0] for 2 permits"},
		{"permits without slots", strings.Replace(permitLine, `"slots":[0,3],`, "", 1), "line 1: a grant without owner and token, or without slots"},
		{"a slot twice", strings.Replace(permitLine, `[0,3]`, "[3,3]", 1), "line 1: slots [3 3] for 2 permits"},
		{"a slot below 0", strings.Replace(permitLine, `[0,3]`, "[0,-3]", 1), "line 1: slots [0 -3] for 2 permits"},
		{"slots without a grant", strings.NewReplacer(`"owner":"o","token":5,`, "", `,"return":20`, "").Replace(permitLine), "line 1: owner or token without a grant"},
		{"slots without a token", strings.Replace(permitLine, `"token":5,`, "", 1), "line 1: a grant without owner and token"},
		{"a reader of a semaphore", strings.Replace(permitLine, `"call"`, `"reads":true,"call"`, 1), "line 1: a reader of a semaphore"},
		{"a count-down without an id", strings.Replace(downLine, `"id":"a",`, "", 1), `line 1: countdown with the id ""`},
		{"a count-down with a lease", strings.Replace(downLine, `"id"`, `"lease":1,"id"`, 1), "line 1: countdown with a lease"},
		{"a latch set to none", strings.NewReplacer("countdown", "set", `"id":"a",`, "").Replace(downLine), "line 1: set of 0"},
		{"fewer than none left", strings.NewReplacer("countdown", "count", `"id":"a"`, `"count":-1`).Replace(downLine), "line 1: count of -1"},
		{"a number without an answer", strings.NewReplacer("countdown", "count", `"id":"a"`, `"count":1`, `,"return":50`, "").Replace(downLine), "line 1: a number without an answer"},
		{"a refusal without an error", strings.Replace(downLine, `"id"`, `"refusal":"not set","id"`, 1), `line 1: the refusal "not set", 0, of a countdown`},
		{"another number without a refusal", strings.Replace(downLine, `"id"`, `"found":3,"id"`, 1), `line 1: the refusal "", 3, of a countdown`},
		{"two ids of one count-down", downLine[:len(downLine)-len(`,"return":50}`+"\n")] + "}\n" + strings.Replace(downLine, `"a"`, `"b"`, 1), "line 2: operation 7 of client c1 is also at line 1, and is another"},
		{"two returns", returnLine + returnLine, "line 2: operation 1 of client c1 has returned already at line 1"},
		{"two operations of one number", callLine + strings.Replace(returnLine, `"call":10`, `"call":11`, 1), "line 2: operation 1 of client c1 is also at line 1, and is another"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.text))
			require.ErrorContains(t, err, "faultinject: history: "+c.want)
		})
	}
}

// TestLinesOfOlderRecorders: a file of an earlier version is read as it was meant.
func TestLinesOfOlderRecorders(t *testing.T) {
	h, err := Read(strings.NewReader(callLine + returnLine + actLine + permitLine + downLine))
	require.NoError(t, err)
	require.ElementsMatch(t, []Event{
		{Client: "c1", Op: 1, Kind: Acquire, Name: "job", Owner: "o", Token: 5, Call: 10, Return: 20},
		{Client: "c1", Op: 2, Kind: Act, Name: "job", Lease: 1, Owner: "o", Token: 5, Call: 20, Return: 30},
		{Client: "c1", Op: 5, Kind: Acquire, Of: Semaphore, Name: "job", Owner: "o", Token: 5, Permits: 2, Slots: []int{0, 3}, Size: 5, Call: 10, Return: 20},
		{Client: "c1", Op: 7, Kind: CountDown, Of: Latch, Name: "job", ID: "a", Call: 40, Return: 50},
	}, h.Events())
}

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_, err := ReadDir(dir)
	require.ErrorContains(t, err, "no *.jsonl in "+dir)

	write("c1.jsonl", callLine+returnLine+actLine[:20])
	write("c2.jsonl", strings.ReplaceAll(callLine, "c1", "c2"))
	write("notes.txt", "not a history")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.jsonl"), 0o700))
	h, err := ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, h.Events(), 2)

	write("c3.jsonl", "\n{\n")
	_, err = ReadDir(dir)
	require.ErrorContains(t, err, filepath.Join(dir, "c3.jsonl")+":2: ")

	_, err = ReadDir(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOneClientInTwoFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(returnLine), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.jsonl"), []byte(returnLine), 0o600))
	_, err := ReadDir(dir)
	require.ErrorContains(t, err, "b.jsonl:1: operation 1 of client c1 has returned already at "+filepath.Join(dir, "a.jsonl")+":1")
}

func TestReadReturnsErrorsOfItsInput(t *testing.T) {
	broken := errors.New("broken disk")
	_, err := Read(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

func TestErrorOfNewNamesTheEvent(t *testing.T) {
	_, err := New(Event{Client: "c1", Op: 1, Kind: Acquire, Name: "job\xff", Call: 1})
	require.ErrorContains(t, err, `event 1: "job\xff" is no name`)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(callLine + returnLine + actLine))
	f.Add([]byte(callLine + returnLine + actLine[:30]))
	f.Add([]byte(returnLine + strings.Replace(actLine, `"act"`, `"lost"`, 1)))
	f.Add([]byte(returnLine + strings.Replace(actLine, `"act"`, `"release"`, 1) + strings.ReplaceAll(returnLine, "c1", "c2")))
	f.Add([]byte("\n\n{}"))
	f.Add([]byte(permitLine + strings.NewReplacer("c1", "c2", "[0,3]", "[3,4]").Replace(permitLine)))
	f.Add([]byte(downLine + strings.NewReplacer("countdown", "set", `"id":"a"`, `"count":2`, `"op":7`, `"op":8`).Replace(downLine)))
	f.Add([]byte(strings.Replace(returnLine, `"call"`, `"reads":true,"call"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		direct, plain := judges(h)
		require.Equal(t, direct, plain)
	})
}
