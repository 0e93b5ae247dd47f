package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommittedPicture(t *testing.T) {
	committed, err := os.ReadFile("lock.svg")
	require.NoError(t, err)
	require.Equal(t, draw(), string(committed), "go generate ./docs/picture makes it anew")
}

func TestWellFormed(t *testing.T) {
	elements := 0
	for d := xml.NewDecoder(strings.NewReader(draw())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if _, ok := token.(xml.StartElement); ok {
			elements++
		}
	}
	require.Greater(t, elements, 40)
}

// TestContrast checks each text against its background, by the contrast that WCAG demands.
func TestContrast(t *testing.T) {
	light, dark := map[string]string{}, map[string]string{}
	for _, p := range palette {
		light[p.class], dark[p.class] = p.light, p.dark
	}
	for scheme, c := range map[string]map[string]string{"light": light, "dark": dark} {
		for text, grounds := range map[string][]string{"text": {"panel", "away"}, "ink": {"a", "b"}, "line": {"panel"}} {
			for _, ground := range grounds {
				require.GreaterOrEqual(t, contrast(t, c[text], c[ground]), 4.5, "%s: %s on %s", scheme, text, ground)
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var r, g, b int
	_, err := fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b)
	require.NoError(t, err)
	linear := func(v int) float64 {
		c := float64(v) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}

// TestStory checks that the story keeps the rules: the holder always has a majority of the servers, and there are
// never two holders.
func TestStory(t *testing.T) {
	for step := range end * 10 {
		at := float64(step)/10 + 0.05
		backing := map[kind]int{}
		for _, s := range servers {
			for _, sp := range s.spans {
				if sp.from <= at && at < sp.to {
					backing[sp.kind]++
				}
			}
		}
		var holders []kind
		for _, c := range clients {
			for _, sp := range c.spans {
				if sp.from <= at && at < sp.to && (sp.kind == heldByA || sp.kind == heldByB) {
					holders = append(holders, sp.kind)
				}
			}
		}
		require.LessOrEqual(t, len(holders), 1, "at %g", at)
		for _, h := range holders {
			require.GreaterOrEqual(t, backing[h], 3, "at %g", at)
		}
	}
}
