package nodetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// box is an inbox with its received messages.
type box struct {
	node.Inbox
	x        *trial
	client   string
	messages chan node.Message
}

// patience is how long a test waits for a message that must come.
const patience = 30 * time.Second

// endOf begins the names about which a test is told only that there are no earlier messages.
const endOf = "end "

// listen opens inboxes of clients: CLIENT or NAME=CLIENT... [-> REASON] The promise is skipped if the node has none.
func listen(x *trial, args []word, _ []step) error {
	if _, ok := x.Node.(node.Listener); !ok {
		x.Skip("this node has no waiters")
	}
	clients, want := until(args)
	for _, w := range clients {
		name, client, named := strings.Cut(w.text, "=")
		if !named {
			client = name
		}
		b := &box{x: x, client: client, messages: make(chan node.Message, 10_000)}
		inbox, err := node.Listen(x.ctx, x.Node, client, func(m node.Message) { b.messages <- m })
		if err == nil {
			b.Inbox, x.boxes[name] = inbox, b
			x.Cleanup(func() { _ = inbox.Close() })
		}
		if err := x.refused(err, want); err != nil {
			return err
		}
	}
	return nil
}

// until returns the words before the arrow, and the rest.
func until(args []word) (before, rest []word) {
	if at := slices.IndexFunc(args, func(w word) bool { return w.is("->") }); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// next returns the next message.
func (b *box) next() (node.Message, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-b.messages:
		return m, nil
	case <-timer.C:
		return node.Message{}, errors.New("waited in vain for a message")
	}
}

// received returns the messages since the last call, up to one that it causes itself.
func (b *box) received() (messages []node.Message, err error) {
	end := fmt.Sprint(endOf, b.x.token())
	err = b.x.operate(b.x.words(fmt.Sprintf(
		"acquire end %q & queue %q#1 %q & release end %q & leave %q %q -> granted, denied, released, released",
		end, b.client+":end", end, end, b.client+":end", end)))
	for err == nil {
		var m node.Message
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
func told(x *trial, args []word, _ []step) error {
	if args[0].is("at") {
		got, err := x.boxes["c"].received()
		if most, _ := strconv.Atoi(args[2].text); err == nil && len(got) > most {
			err = fmt.Errorf("%d were told", len(got))
		}
		return err
	}
	b, want, err := x.expected(args)
	if err != nil {
		return err
	}
	got, err := b.received()
	if err == nil && !slices.EqualFunc(got, want, same) {
		err = fmt.Errorf("%+v were told", got)
	}
	return err
}

// hears waits for a message, whatever comes before it.
func hears(x *trial, args []word, _ []step) error {
	b, want, err := x.expected(args)
	for m := (node.Message{}); err == nil && !same(m, want[0]); {
		m, err = b.next()
	}
	return err
}

// anyFence is in a message whose fence does not matter.
const anyFence = 1

func same(got, want node.Message) bool {
	if want.Fence == anyFence {
		got.Fence = anyFence
	}
	return got == want
}

// expected returns the inbox and the messages of a line.
func (x *trial) expected(args []word) (b *box, messages []node.Message, err error) {
	name := "c"
	if label, ok := strings.CutSuffix(args[0].text, ":"); ok && args[0].plain {
		name, args = label, args[1:]
	}
	if args[0].is("nothing") {
		return x.boxes[name], nil, nil
	}
	for _, words := range split(args, ";") {
		m := node.Message{Fence: anyFence}
		last := words[len(words)-1]
		if fence, ok := strings.CutPrefix(last.text, "fence="); ok && last.plain {
			if m.Fence, err = x.number(fence); err != nil {
				return nil, nil, err
			}
			words = words[:len(words)-1]
		}
		kinds := []node.MessageKind{node.Woken, node.Standby, node.Returned, node.Announced, node.Counted, node.Forced}
		at := slices.IndexFunc(kinds, func(k node.MessageKind) bool { return k.String() == words[0].text })
		if at < 0 || len(words) < 2 {
			return nil, nil, fmt.Errorf("no such message: %q", texts(words))
		}
		if m.Kind, m.Name = kinds[at], words[len(words)-1].text; m.Kind != node.Announced {
			m.Waiter = words[1].text
		}
		messages = append(messages, m)
	}
	return x.boxes[name], messages, nil
}

// gone waits until the inbox of a client that is closed has no subscriber: a server notices a closed connection a
// little later.
func gone(x *trial, args []word, _ []step) error {
	line := fmt.Sprintf("queue %s:gone#1 probe & release o9 probe & leave %[1]s:gone probe -> denied, released, absent", args[0].text)
	err := errSlow
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		if err = x.operate(x.words("acquire o9 probe -> granted")); err == nil {
			err = x.operate(x.words(line))
		}
	}
	return err
}

// follow lets an inbox follow locks: INBOX NAME... [-> REASON] The promise is skipped if the node cannot.
func follow(x *trial, args []word, _ []step) error {
	f, ok := x.boxes[args[0].text].Inbox.(node.Follower)
	if !ok {
		x.Skip("this node lets no client follow a lock")
	}
	names, want := until(args[1:])
	for _, name := range names {
		if err := x.refused(f.Follow(name.text), want); err != nil {
			return err
		}
	}
	return nil
}

func unfollow(x *trial, args []word, _ []step) error {
	for _, name := range args[1:] {
		x.boxes[args[0].text].Inbox.(node.Follower).Unfollow(name.text) //nolint:forcetypeassert // it follows
	}
	return nil
}
