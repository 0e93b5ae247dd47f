package doctest

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// howItWorks is the page that explains one picture per section.
const howItWorks = "docs/how-it-works.md"

var (
	// frame is the beginning of each picture, which tells screen readers what it shows.
	frame = regexp.MustCompile(`^<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 (\d+) (\d+)" width="(\d+)" height="(\d+)" ` +
		`role="img" aria-labelledby="title desc">\n<title id="title">[^<]+</title>\n<desc id="desc">[^<]+</desc>\n(?:<defs>.*</defs>\n)?<style>([^<]+)</style>\n`)
	// refused are elements and attributes that GitHub removes, or that load another file.
	refused = regexp.MustCompile(`<(script|foreignObject|image|use|a|animate)\b|\s(href|xlink:href|on\w+)=|@import|url\([^#]`)
	// shown matches an image of a document: its alternative text, and its file.
	shown  = regexp.MustCompile(`^!\[([^\]]+)\]\(([^)\s]+\.svg)\)$`)
	number = regexp.MustCompile(`<text [^>]*class="number"[^>]*>([^<]+)</text>`)
)

func readPicture(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestPictures checks each picture: a document shows it, browsers and screen readers can read it, it follows the colour
// scheme of the reader, it needs no other file, and all pictures have the same style.
func TestPictures(t *testing.T) {
	used := map[string]bool{}
	for _, d := range documents(t) {
		for _, line := range d.lines {
			if m := shown.FindStringSubmatch(line); m != nil {
				used[filepath.Join(root, filepath.Dir(d.path), m[2])] = true
			}
		}
	}
	paths, err := filepath.Glob(root + "/docs/*/*.svg")
	require.NoError(t, err)
	require.Greater(t, len(paths), 5, "the search finds too few pictures")
	style := ""
	for _, path := range paths {
		text := readPicture(t, path)
		require.True(t, used[path], "no document shows %s", path)
		require.NoError(t, xml.Unmarshal([]byte(text), new(any)), path)
		require.NotRegexp(t, refused, text, path)
		m := frame.FindStringSubmatch(text)
		require.NotNil(t, m, "%s: the frame must be %s", path, frame)
		require.Equal(t, m[1:3], m[3:5], path)
		width, err := strconv.Atoi(m[1])
		require.NoError(t, err, path)
		require.LessOrEqual(t, width, 900, "%s: GitHub shows wider ones much smaller", path)
		require.Contains(t, m[5], "@media (prefers-color-scheme: dark)", path)
		if style == "" {
			style = m[5]
		}
		require.Equal(t, style, m[5], "%s: change the style of all pictures together", path)
	}
}

// TestStepsOfPictures checks that the list below each picture explains each number in it.
func TestStepsOfPictures(t *testing.T) {
	checked := 0
	lines := read(t, howItWorks).lines
	for i, line := range lines {
		m := shown.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		checked++
		var steps, numbers []string
		for _, found := range number.FindAllStringSubmatch(readPicture(t, filepath.Join(root, "docs", m[2])), -1) {
			numbers = append(numbers, found[1])
		}
		for _, line := range lines[i+1:] {
			if strings.HasPrefix(line, "#") {
				break
			}
			if number, _, ok := strings.Cut(line, ". "); ok && numbered.MatchString(line) {
				steps = append(steps, number)
			}
		}
		slices.Sort(numbers)
		require.NotEmpty(t, steps, m[2])
		require.Equal(t, steps, numbers, m[2])
	}
	require.Equal(t, 7, checked, "the page says how many pictures it has")
}

// TestFiguresOfHowItWorks compares the figures and messages on the page and in its pictures with the code.
func TestFiguresOfHowItWorks(t *testing.T) {
	page := squeezed(strings.Join(read(t, howItWorks).lines, " "))
	client, err := quorumlock.New(quorumlock.Config{Nodes: []node.Node{memory.New("n1", nil)}})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	ttl, skew, handover := client.Config().TTL, client.Config().MaxClockSkew, client.Config().Handover
	stale := &fence.StaleError{Token: 41, Seen: 42}
	lost := &quorumlock.LostError{Names: []string{"report"}, Reason: "no quorum of nodes confirmed a renewal in time"}
	for _, want := range []string{
		fmt.Sprintf("a TTL of %d s, and a `MaxClockSkew` of %d s", seconds(ttl), seconds(skew)),
		fmt.Sprintf("A relies on %.3f s", decision.Expiry(0, ttl).Seconds()),
		fmt.Sprintf("for %d s (MaxTTL + MaxClockSkew)", seconds(ttl+skew)),
		fmt.Sprintf("%d ms after the grant, or after %d hand-overs", handover.MaxTime.Milliseconds(), handover.MaxCount),
		"`" + stale.Error() + "`",
		"`" + lost.Error() + "`",
	} {
		require.Contains(t, page, want)
	}
	handbook := squeezed(strings.Join(read(t, "docs/handbook.md").lines, " "))
	require.Contains(t, handbook, lost.Reason)
	messages := regexp.MustCompile("`(quorumlock: node [^`]+)`").FindAllStringSubmatch(page, -1)
	require.Len(t, messages, 2)
	for _, m := range messages {
		require.Contains(t, handbook, m[1], "TestHandbook compares the handbook with the code")
	}
	for name, want := range map[string]string{
		"lease":    fmt.Sprintf("%d s from the grant", seconds(ttl)),
		"recovery": fmt.Sprintf("gives nothing new for %d s", seconds(ttl+skew)),
		"handover": strconv.FormatInt(handover.MaxTime.Milliseconds(), 10),
	} {
		require.Contains(t, readPicture(t, filepath.Join(root, "docs/picture", name+".svg")), ">"+want+"<", name)
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }
