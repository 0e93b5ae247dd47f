package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/wire"
)

type box struct {
	wire.Inbox
	x        *trial
	client   string
	messages chan wire.Message
}

// patience is how long a test waits for a message that must come.
const patience = 30 * time.Second

// endOf begins the names about which a test is told only that there are no earlier messages.
const endOf = "end "

// listen opens inboxes of clients: CLIENT or NAME=CLIENT... [-> REASON].
func (x *trial) listen(args []word, follows bool) error {
	parts := split(args, "->")
	for _, w := range parts[0] {
		name, client, named := strings.Cut(w.text, "=")
		if !named {
			client = name
		}
		b := &box{x: x, client: client, messages: make(chan wire.Message, 10_000)}
		inbox, err := inbox.Listen(x.ctx, x.Node, client, follows, func(m wire.Message) { b.messages <- m })
		if err == nil {
			b.Inbox, x.boxes[name] = inbox, b
			x.Cleanup(func() { _ = inbox.Close() })
		}
		if err := x.refused(err, parts); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) next() (wire.Message, error) {
	select {
	case m := <-b.messages:
		return m, nil
	case <-time.After(patience):
		return wire.Message{}, errors.New("waited in vain for a message")
	}
}

// received returns the messages since the last call, up to one that it causes itself.
func (b *box) received() (messages []wire.Message, err error) {
	end := fmt.Sprint(endOf, b.x.token())
	err = b.x.ask(fmt.Sprintf(
		"acquire end %[1]q & queue %[2]q#1 %[1]q & release end %[1]q & leave %[2]q %[1]q -> granted, denied, released, released",
		end, b.client+":end"))
	for err == nil {
		var m wire.Message
		switch m, err = b.next(); {
		case m.Name == end:
			return messages, err
		case !strings.HasPrefix(m.Name, endOf): // the end of another inbox of the client
			messages = append(messages, m)
		}
	}
	return messages, err
}

// told requires these messages since the last call: [INBOX:] KIND WAITER NAME; ... or "nothing", or "at most" a number.
// The inbox is c unless told otherwise.
func (x *trial) told(args []word) error {
	if args[0].is("at") {
		got, err := x.boxes["c"].received()
		if most, _ := strconv.Atoi(args[2].text); err == nil && len(got) > most {
			err = fmt.Errorf("%d were told", len(got))
		}
		return err
	}
	b, want := x.expected(args)
	got, err := b.received()
	if err == nil && !slices.EqualFunc(got, want, matches) {
		err = fmt.Errorf("%+v were told", got)
	}
	return err
}

func (x *trial) hears(args []word) error {
	var err error
	b, want := x.expected(args)
	for m := (wire.Message{}); err == nil && !matches(m, want[0]); {
		m, err = b.next()
	}
	return err
}

// anyFence is in a message whose fence does not matter.
const anyFence = 1

func matches(got, want wire.Message) bool {
	if want.Fence == anyFence {
		got.Fence = anyFence
	}
	return got == want
}

func (x *trial) expected(args []word) (b *box, messages []wire.Message) {
	name := "c"
	if label, ok := strings.CutSuffix(args[0].text, ":"); ok && args[0].plain {
		name, args = label, args[1:]
	}
	if args[0].is("nothing") {
		return x.boxes[name], nil
	}
	for _, words := range split(args, ";") {
		m := wire.Message{Fence: anyFence}
		if last := words[len(words)-1]; last.plain && strings.HasPrefix(last.text, "fence=") {
			m.Fence = x.number(last.text[len("fence="):])
			words = words[:len(words)-1]
		}
		for _, m.Kind = range []wire.MessageKind{wire.Woken, wire.Standby, wire.Returned, wire.Announced, wire.Counted, wire.Forced} {
			if m.Kind.String() == words[0].text {
				break
			}
		}
		if m.Kind.String() != words[0].text || len(words) < 2 {
			x.malformed("no such message: %q", texts(words))
		}
		if m.Name = words[len(words)-1].text; m.Kind == wire.Announced {
			m.Name = wire.RedissonChannel(m.Name)
		} else {
			m.Waiter = words[1].text
		}
		messages = append(messages, m)
	}
	return x.boxes[name], messages
}

// gone waits until the inbox of a client that is closed has no subscriber: a server notices a closed connection a
// little later.
func (x *trial) gone(client string) error {
	line := fmt.Sprintf("queue %s:gone#1 probe & release o9 probe & leave %[1]s:gone probe -> denied, released, absent", client)
	err := errSlow
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		err = x.ask("acquire o9 probe -> granted", line)
	}
	return err
}
