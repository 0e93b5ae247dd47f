package doctest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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
	"github.com/quorumlock/quorumlock/quorum"
)

// howItWorks is the page that explains one picture per section.
const howItWorks = "docs/how-it-works.md"

// maxWidth is the widest picture that GitHub shows without shrinking it much.
const maxWidth = 900

// picture is one SVG file.
type picture struct {
	path  string // below root
	attrs map[string]string
	// texts has the text of each element that is not empty, by element or class: title, desc, style, number.
	texts map[string][]string
	ids   []string
}

// pictures returns all SVG files under docs.
func pictures(t *testing.T) (all []picture) {
	t.Helper()
	paths, err := filepath.Glob(root + "/docs/*/*.svg")
	require.NoError(t, err)
	for _, path := range paths {
		p, err := parsePicture(path)
		require.NoError(t, err, path)
		all = append(all, p)
	}
	require.Greater(t, len(all), 5, "the search finds too few pictures")
	return all
}

func parsePicture(path string) (picture, error) {
	f, err := os.Open(path)
	if err != nil {
		return picture{}, err
	}
	defer f.Close()
	p := picture{path: strings.TrimPrefix(path, root+"/"), attrs: map[string]string{}, texts: map[string][]string{}}
	var open []string
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && len(p.attrs) > 0:
			return p, nil
		case err != nil:
			return p, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			kind := token.Name.Local
			for _, a := range token.Attr {
				if err := harmless(kind, a); err != nil {
					return p, err
				}
				switch {
				case kind == "svg":
					p.attrs[a.Name.Local] = a.Value
				case a.Name.Local == "id":
					p.ids = append(p.ids, a.Value)
				case kind == "text" && a.Name.Local == "class":
					kind = a.Value
				}
			}
			open = append(open, kind)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" && len(open) > 0 {
				p.texts[open[len(open)-1]] = append(p.texts[open[len(open)-1]], text)
			}
		}
	}
}

// harmless returns an error for an element or attribute that GitHub removes, or that loads another file.
func harmless(element string, a xml.Attr) error {
	switch {
	case slices.Contains([]string{"script", "foreignObject", "image", "use", "a", "animate"}, element):
		return fmt.Errorf("element %s", element)
	case a.Name.Local == "href", strings.HasPrefix(a.Name.Local, "on"):
		return fmt.Errorf("attribute %s", a.Name.Local)
	default:
		return nil
	}
}

// TestPictures checks each picture: browsers and screen readers can read it, it follows the colour scheme of the
// reader, it needs no other file, and all pictures have the same style.
func TestPictures(t *testing.T) {
	var style string
	for _, p := range pictures(t) {
		require.Len(t, p.texts["title"], 1, p.path)
		require.Len(t, p.texts["desc"], 1, p.path)
		require.Equal(t, "img", p.attrs["role"], p.path)
		for id := range strings.FieldsSeq(p.attrs["aria-labelledby"]) {
			require.Contains(t, p.ids, id, p.path)
		}
		width, err := strconv.Atoi(p.attrs["width"])
		require.NoError(t, err, p.path)
		require.LessOrEqual(t, width, maxWidth, p.path)
		require.Equal(t, fmt.Sprintf("0 0 %d %s", width, p.attrs["height"]), p.attrs["viewBox"], p.path)

		require.Len(t, p.texts["style"], 1, p.path)
		require.NotRegexp(t, `@import|url\([^#]`, p.texts["style"][0], "%s loads another file", p.path)
		require.Contains(t, p.texts["style"][0], "@media (prefers-color-scheme: dark)", p.path)
		if style == "" {
			style = p.texts["style"][0]
		}
		require.Equal(t, style, p.texts["style"][0], "%s: change the style of all pictures together", p.path)
	}
}

// TestPicturesAreRefused tests the parser: it refuses files that GitHub would not show.
func TestPicturesAreRefused(t *testing.T) {
	for text, problem := range map[string]string{
		`<svg width="1"><g></svg>`: "element <g> closed by </svg>",
		`<svg width="1"><text>`:    "unexpected EOF",
		``:                         "EOF",
		`<svg width="1"><script type="text/javascript"></script></svg>`: "element script",
		`<svg width="1"><image width="1" href="x.png"/></svg>`:          "element image",
		`<svg width="1"><rect onclick="x()"/></svg>`:                    "attribute onclick",
	} {
		path := filepath.Join(t.TempDir(), "x.svg")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := parsePicture(path)
		require.ErrorContains(t, err, problem, text)
	}
}

// shown matches an image of a document: its alternative text, and its file.
var shown = regexp.MustCompile(`^!\[([^\]]+)\]\(([^)\s]+\.svg)\)$`)

// TestPicturesAreShown checks that a document shows each picture, with an alternative text.
func TestPicturesAreShown(t *testing.T) {
	used := map[string]bool{}
	for _, d := range documents(t) {
		for _, line := range d.lines {
			if m := shown.FindStringSubmatch(line); m != nil {
				used[filepath.Join(filepath.Dir(d.path), m[2])] = true
			}
		}
	}
	for _, p := range pictures(t) {
		require.True(t, used[p.path], "no document shows %s", p.path)
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
		p, err := parsePicture(filepath.Join(root, "docs", m[2]))
		require.NoError(t, err)
		var steps []string
		for _, line := range lines[i+1:] {
			if strings.HasPrefix(line, "#") {
				break
			}
			if number, _, ok := strings.Cut(line, ". "); ok && numbered.MatchString(line) {
				steps = append(steps, number)
			}
		}
		numbers := slices.Sorted(slices.Values(p.texts["number"]))
		require.NotEmpty(t, steps, m[2])
		require.Equal(t, steps, numbers, m[2])
	}
	require.Equal(t, 7, checked, "the page says how many pictures it has")
}

// TestFiguresOfHowItWorks compares the figures and messages on the page and in its pictures with the code.
func TestFiguresOfHowItWorks(t *testing.T) {
	page := squeezed(strings.Join(read(t, howItWorks).lines, " "))
	ttl, skew := quorumlock.DefaultTTL, quorumlock.DefaultMaxClockSkew
	stale := &fence.StaleError{Token: 41, Seen: 42}
	lost := &quorumlock.LostError{Names: []string{"report"}, Reason: "no quorum of nodes confirmed a renewal in time"}
	for _, want := range []string{
		fmt.Sprintf("a TTL of %d s, and a `MaxClockSkew` of %d s", seconds(ttl), seconds(skew)),
		fmt.Sprintf("A relies on %.3f s", quorum.Expiry(0, ttl).Seconds()),
		fmt.Sprintf("for %d s (MaxTTL + MaxClockSkew)", seconds(ttl+skew)),
		fmt.Sprintf("%d ms after the grant, or after %d hand-overs", quorumlock.DefaultHandoverTime.Milliseconds(), quorumlock.DefaultHandovers),
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
		"handover": strconv.FormatInt(quorumlock.DefaultHandoverTime.Milliseconds(), 10),
	} {
		p, err := parsePicture(filepath.Join(root, "docs/picture", name+".svg"))
		require.NoError(t, err)
		var texts []string
		for _, all := range p.texts {
			texts = append(texts, all...)
		}
		require.Contains(t, texts, want, name)
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }
