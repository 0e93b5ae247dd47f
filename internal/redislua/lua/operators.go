package lua

import (
	"cmp"
	"math"
)

// compared compares two numbers or two texts. No script has a number that is none.
func compared(a, b Value) int {
	switch x := a.(type) {
	case float64:
		if y, ok := b.(float64); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y)
		}
	}
	raisef("attempt to compare %s with %s", typeName(a), typeName(b))
	return 0
}

var comparisons = map[string]func(a, b Value) bool{
	"==": func(a, b Value) bool { return a == b },
	"~=": func(a, b Value) bool { return a != b },
	"<":  func(a, b Value) bool { return compared(a, b) < 0 },
	"<=": func(a, b Value) bool { return compared(a, b) <= 0 },
	">":  func(a, b Value) bool { return compared(a, b) > 0 },
	">=": func(a, b Value) bool { return compared(a, b) >= 0 },
}

var arithmetic = map[string]func(a, b float64) float64{
	"+": func(a, b float64) float64 { return a + b },
	"-": func(a, b float64) float64 { return a - b },
	"*": func(a, b float64) float64 { return a * b },
	"/": func(a, b float64) float64 { return a / b },
	"%": func(a, b float64) float64 { return a - math.Floor(a/b)*b },
	"^": math.Pow,
}

func operand(v Value) float64 {
	if n, ok := v.(float64); ok {
		return n
	}
	n, ok := number(v)
	if !ok {
		raisef("attempt to perform arithmetic on a %s value", typeName(v))
	}
	return n
}

func length(v Value) Value {
	switch v := v.(type) {
	case string:
		return float64(len(v))
	case *Table:
		return float64(v.Len())
	}
	raisef("attempt to get length of a %s value", typeName(v))
	return nil
}

func joinable(v Value) string {
	text, ok := Text(v)
	if !ok {
		raisef("attempt to concatenate a %s value", typeName(v))
	}
	return text
}

func index(of, key Value) Value {
	if _, ok := of.(string); ok {
		return nil // a string has the functions of the library string as its fields; no script uses them so
	}
	return indexed(of).Get(key)
}

// indexed returns the table that a script indexes.
func indexed(v Value) *Table {
	t, ok := v.(*Table)
	if !ok {
		raisef("attempt to index a %s value", typeName(v))
	}
	return t
}
