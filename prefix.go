package quorumlock

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

const maxPrefixLength = 128

// prefixProblems lists the problems of a Config.Prefix.
//
// A brace in it must belong to a hash tag of its own. Otherwise the prefix and a name could make one together, and
// keys that a name alone puts into one slot of a Redis Cluster would lie in several.
func prefixProblems(prefix string) []string {
	if problem := checkLabel("Prefix", prefix, maxPrefixLength, false); problem != "" {
		return []string{problem}
	}
	switch {
	case prefix == "":
		return nil
	case strings.HasPrefix(prefix, reservedPrefix), strings.HasPrefix(reservedPrefix, prefix):
		return []string{fmt.Sprintf("Prefix %q and %q, which is reserved, begin alike", prefix, reservedPrefix)}
	case strings.ContainsAny(prefix, "{}") && !hasOneHashTag(prefix):
		return []string{fmt.Sprintf("Prefix %q has a brace without a complete hash tag: write {tag} once, or no brace", prefix)}
	default:
		return nil
	}
}

// addTag puts the hash tag of nodes that are slots of clusters into the prefix, and lists the problems of that.
func (c *Config) addTag(nodes []node.Node) []string {
	tags := make([]string, len(nodes))
	for i, nd := range nodes {
		if t, ok := nd.(interface{ Tag() string }); ok {
			tags[i] = t.Tag()
		}
	}
	prefix, err := wire.TagPrefix(c.Prefix, tags...)
	if err != nil {
		return []string{strings.TrimPrefix(err.Error(), "node: ")}
	}
	c.Prefix = prefix
	return prefixProblems(prefix)
}

// hasOneHashTag reports whether the braces of a text are exactly one hash tag, "{tag}".
func hasOneHashTag(text string) bool {
	_, inside, _ := strings.Cut(text, "{")
	tag, after, closed := strings.Cut(inside, "}")
	return closed && tag != "" && !strings.ContainsAny(tag+after, "{}") && strings.IndexByte(text, '}') > strings.IndexByte(text, '{')
}

// onNodes returns the names that a program gave as the nodes know them.
func (c *Client) onNodes(names []string) []string {
	if c.cfg.Prefix == "" {
		return names
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = c.cfg.Prefix + name
	}
	return full
}

// shortHolders returns holders of locks with the names that the program knows.
func (c *Client) shortHolders(holders []wire.Holder) (short []node.Holder) {
	for _, h := range holders {
		h.Name = wire.WithoutPrefix(c.cfg.Prefix, h.Name)
		short = append(short, node.Holder(h))
	}
	return short
}
