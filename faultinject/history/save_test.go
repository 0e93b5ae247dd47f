package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longIllegal is a history of two names. On the first, a holder acts long after later leases have come and gone.
func longIllegal(t *testing.T) *History {
	s := newSimulation(rand.New(rand.NewPCG(3, 4)), 3, 2, 20)
	for range 100 {
		s.lease("a")
	}
	at := s.now + 100
	old := s.add(Event{Client: "zombie", Kind: Acquire, Names: []string{"a"}, Owner: "z", Token: s.token + 1, Call: at, Return: at + 10})
	s.token, s.now = s.token+1, at+100
	for range 100 {
		s.lease("a")
		s.lease("b")
	}
	s.add(Event{
		Client: "zombie", Kind: Act, Names: []string{"a"}, Lease: old.Op, Owner: "z", Token: old.Token, Call: s.now + 100, Return: s.now + 101,
	})
	return s.history(t)
}

func TestSaveWritesViolations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	h := longIllegal(t)
	r := Check(h, ample)
	require.NoError(t, r.Save(dir))

	file, err := os.Open(filepath.Join(dir, HistoryFile))
	require.NoError(t, err)
	defer file.Close()
	again, err := Read(file)
	require.NoError(t, err)
	require.Equal(t, h.Events(), again.Events())

	text := read(t, dir, ViolationsFile)
	require.Contains(t, text, r.Violations[0].String())
	require.Contains(t, text, "zombie/w0 act a")
	marked := strings.Count(text, "    > ")
	require.Equal(t, len(r.Violations[0].Events), marked)
	require.Greater(t, strings.Count(text, "\n"), 2*around)
	require.Less(t, strings.Count(text, "\n"), 100, "not all of the history")

	page := read(t, dir, VisualFile)
	require.Contains(t, page, "zombie/w0 acquire a -\\u003e token")
	require.Contains(t, page, "zombie/w0 end of a")
	require.Contains(t, page, string(Overlap))
	acquisitions := strings.Count(page, " acquire a -\\u003e token")
	require.Greater(t, acquisitions, neighbours)
	require.Less(t, acquisitions, 5*neighbours, "not all of the history")
	require.NotContains(t, page, "acquire b", "a name that nothing is wrong with")
}

// TestEachPictureShowsAnIllegalPart: a picture of a legal part would explain nothing.
func TestEachPictureShowsAnIllegalPart(t *testing.T) {
	seeds(t, 50, func(t *testing.T, r *rand.Rand) {
		s := newSimulation(r, 3, 30, 20)
		for range 60 {
			s.lease("a")
		}
		for range 3 {
			corrupt(r, s.events)
		}
		if r.IntN(2) == 0 {
			for range 60 {
				s.turn()
			}
			for range 3 {
				corrupt(r, s.events)
			}
		}
		h := s.history(t)
		a := subject{name: "a", slot: none}
		_, _, leases := h.bySubject()
		for _, v := range inspect(a, leases[a], 0) {
			require.NotEmpty(t, inspect(a, v.window(leases[a]), 0), "%s", v)
		}
	})
}

func TestSaveOfALegalHistory(t *testing.T) {
	dir := t.TempDir()
	var s script
	s.grant(5, 10, 20)
	require.NoError(t, Check(s.history(t), ample).Save(dir))
	require.FileExists(t, filepath.Join(dir, HistoryFile))
	require.NoFileExists(t, filepath.Join(dir, ViolationsFile))
	require.NoFileExists(t, filepath.Join(dir, VisualFile))
}

func TestSaveOfAnUndecidedHistory(t *testing.T) {
	dir := t.TempDir()
	var s script
	s.grant(5, 10, 20)
	require.NoError(t, Check(s.history(t), 0).Save(dir))
	require.Contains(t, read(t, dir, ViolationsFile), "no verdict in time for job")
	require.NoFileExists(t, filepath.Join(dir, VisualFile))
}

func TestSaveShowsPorcupinesViolation(t *testing.T) {
	dir := t.TempDir()
	var s script
	s.grant(5, 10, 20)
	s.grant(6, 30, 40)
	r := Check(s.history(t), ample)
	r.Verdict = Illegal
	r.add(subject{name: "job", slot: none}, "Illegal")
	require.NoError(t, r.Save(dir))
	require.Contains(t, read(t, dir, ViolationsFile), string(Unexplained))
	require.Equal(t, 2, strings.Count(read(t, dir, VisualFile), " acquire job -\\u003e token"))
}

func TestSaveNamesUnwritableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	var s script
	require.ErrorContains(t, Check(s.history(t), ample).Save(path), fmt.Sprintf("faultinject: saving a history: mkdir %s", path))
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}
