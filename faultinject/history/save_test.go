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
	s := newSimulation(rand.New(rand.NewPCG(3, 4)), 2)
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

	text := violations(t, dir)
	require.Contains(t, text, r.Violations[0].String())
	require.Contains(t, text, "zombie/w0 act a")
	marked := strings.Count(text, "    > ")
	require.Equal(t, len(r.Violations[0].Events), marked)
	require.Greater(t, strings.Count(text, "\n"), 2*around)
	require.Less(t, strings.Count(text, "\n"), 100, "not all of the history")
}

func TestSaveOfALegalHistory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Check(play(t, "grant 5 10..20"), ample).Save(dir))
	require.FileExists(t, filepath.Join(dir, HistoryFile))
	require.NoFileExists(t, filepath.Join(dir, ViolationsFile))
}

func TestSaveOfAnUndecidedHistory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Check(play(t, "grant 5 10..20"), 0).Save(dir))
	require.Contains(t, violations(t, dir), "no verdict in time for job")
}

func TestSaveShowsPorcupinesViolation(t *testing.T) {
	dir := t.TempDir()
	r := Check(play(t, "grant 5 10..20; grant 6 30..40"), ample)
	r.Verdict = Illegal
	r.add(subject{name: "job", slot: none}, "Illegal")
	require.NoError(t, r.Save(dir))
	require.Contains(t, violations(t, dir), string(Unexplained))
}

func TestSaveNamesUnwritableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorContains(t, Check(play(t, ""), ample).Save(path), fmt.Sprintf("faultinject: saving a history: mkdir %s", path))
}

// violations is the text of the violations that Save wrote.
func violations(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, ViolationsFile))
	require.NoError(t, err)
	return string(text)
}
