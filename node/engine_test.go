package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redislua"
)

// mirrorHost gives package redislua the clock, the identity and the subscribers of a mirror.
type mirrorHost mirror

func (h *mirrorHost) Micros() int64 { return (*mirror)(h).now() * 1000 }

func (h *mirrorHost) Replication() string {
	return "# Replication\r\nmaster_replid:" + h.memory.identity + "\r\n"
}

func (h *mirrorHost) Publish(channel, message string) int {
	h.sent = append(h.sent, channel, message)
	if client, ok := strings.CutPrefix(channel, inboxPrefix); ok && h.live[client] != nil {
		return 1
	}
	return 0
}

// compareEngine runs a command on the engine too, and compares its reply, its messages and all its keys with those of
// the server.
func (p *mirror) compareEngine(onServer rueidis.RedisResult, args []string) {
	p.Helper()
	p.sent = nil
	reply := replyText(p.engine.Do(args...))
	message, _ := onServer.ToMessage()
	want := messageText(message)
	p.check(reply == want, "the server replied\n  %s\nand the engine\n  %s", want, reply)
	sent, err := p.command("LRANGE", "test:sent", "0", "-1").AsStrSlice()
	require.NoError(p, err)
	// The list also has the messages of the commands before this one of the same exchange.
	p.check(slices.Equal(sent[max(0, len(sent)-len(p.sent)):], p.sent), "the server sent\n  %q\nand the engine\n  %q", sent, p.sent)
	stored := p.stored()
	for _, name := range p.engine.Do("KEYS", "*").Items {
		key, there := stored[name.Text]
		p.check(there, "only the engine has the key %q", name.Text)
		delete(stored, name.Text)
		ends := p.engine.Do("PTTL", name.Text).Int
		if ends >= 0 {
			ends += p.now()
		}
		p.check(max(ends, 0) == key.ends, "the end of %q: %d on the server, %d in the engine", name.Text, key.ends, ends)
		var list []string
		switch kind := p.engine.Do("TYPE", name.Text).Text; kind {
		case "hash":
			list = itemTexts(p.engine.Do("HGETALL", name.Text))
		case "zset":
			list = itemTexts(p.engine.Do("ZRANGE", name.Text, "0", "-1", "WITHSCORES"))
		default:
			all, err := p.command("GETRANGE", name.Text, "0", "-1").ToString()
			require.NoError(p, err)
			p.check(p.engine.Do("GETRANGE", name.Text, "0", "-1").Text == all, "the text of %q", name.Text)
			continue
		}
		p.check(slices.Equal(pairs(list), pairs(key.values)), "the key %q:\n  %q on the server\n  %q in the engine", name.Text, key.values, list)
	}
	delete(stored, "test:ends")
	delete(stored, "test:sent")
	p.check(len(stored) == 0, "only the server has the keys %v", stored)
}

func itemTexts(v redislua.Value) []string {
	texts := make([]string, len(v.Items))
	for i, item := range v.Items {
		texts[i] = item.Text
	}
	return texts
}

// pairs sorts the fields of a hash, with their values.
func pairs(list []string) []string {
	var found []string
	for i := 0; i+1 < len(list); i += 2 {
		found = append(found, list[i]+" = "+list[i+1])
	}
	slices.Sort(found)
	return found
}

// replyText and messageText write a reply in the same way. Of an error they write the first word: its rest names lines.
func replyText(v redislua.Value) string {
	switch v.Kind {
	case redislua.Integer:
		return fmt.Sprint(v.Int)
	case redislua.Bulk, redislua.Status:
		return fmt.Sprintf("%q", v.Text)
	case redislua.Error:
		word, _, _ := strings.Cut(v.Text, " ")
		return "error " + word
	case redislua.Array:
		texts := make([]string, len(v.Items))
		for i, item := range v.Items {
			texts[i] = replyText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		return "nil"
	}
}

func messageText(m rueidis.RedisMessage) string {
	switch err := m.Error(); {
	case m.IsNil():
		return "nil"
	case err != nil:
		word, _, _ := strings.Cut(err.Error(), " ")
		return "error " + word
	case m.IsInt64():
		n, _ := m.AsInt64()
		return fmt.Sprint(n)
	case m.IsArray():
		items, _ := m.ToArray()
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = messageText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		text, _ := m.ToString()
		return fmt.Sprintf("%q", text)
	}
}
