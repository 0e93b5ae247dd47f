package redislua

// Kind is the type of a [Value].
type Kind uint8

// The kinds of value, named as in RESP.
const (
	Nil Kind = iota
	Integer
	Bulk
	Status
	Error
	Array
)

// Value is a reply of a server.
type Value struct {
	Kind Kind
	// Int is an Integer; Text a Bulk, a Status or an Error; Items an Array.
	Int   int64
	Text  string
	Items []Value
}

func integer(n int) Value    { return Value{Kind: Integer, Int: int64(n)} }
func bulk(s string) Value    { return Value{Kind: Bulk, Text: s} }
func failure(s string) Value { return Value{Kind: Error, Text: s} }
func array(vs []Value) Value { return Value{Kind: Array, Items: vs} }
func status(s string) Value  { return Value{Kind: Status, Text: s} }

func bulks(texts ...string) Value {
	items := make([]Value, len(texts))
	for i, t := range texts {
		items[i] = bulk(t)
	}
	return array(items)
}
