package hooks_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// recording returns hooks that record who and the name of the hook in told, and the arguments in args.
func recording(who string, told *[]string, args *[]any) quorumlock.Hooks {
	var h quorumlock.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func(in []reflect.Value) []reflect.Value {
			*told = append(*told, who+" "+name)
			for _, arg := range in {
				*args = append(*args, arg.Interface())
			}
			return nil
		}))
	}
	return h
}

// distinct returns an argument that is not the zero value of its type.
func distinct(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case reflect.TypeFor[string]():
		v.SetString("n1")
	case reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New("no")))
	default:
		for i := range v.NumField() {
			if field := v.Field(i); field.Kind() == reflect.String {
				field.SetString("n1")
				break
			}
		}
	}
	return v
}

func TestMultiHooksCallAll(t *testing.T) {
	var told []string
	var args []any
	all := quorumlock.MultiHooks(recording("a", &told, &args), quorumlock.Hooks{}, recording("b", &told, &args))
	v := reflect.ValueOf(all)
	for i := range v.NumField() {
		told, args = nil, nil
		name, f := v.Type().Field(i).Name, v.Field(i)
		require.False(t, f.IsNil(), name)
		in := make([]reflect.Value, 0, 2)
		for k := range f.Type().NumIn() {
			in = append(in, distinct(f.Type().In(k)))
		}
		f.Call(in)
		require.Equal(t, []string{"a " + name, "b " + name}, told)
		want := make([]any, 0, 2*len(in))
		for range 2 {
			for _, arg := range in {
				want = append(want, arg.Interface())
			}
		}
		require.Equal(t, want, args, name)
	}
}

func TestMultiHooksKeepUnusedHooksNil(t *testing.T) {
	called := 0
	one := quorumlock.MultiHooks(quorumlock.Hooks{}, quorumlock.Hooks{NodeUp: func(string) { called++ }})
	v := reflect.ValueOf(one)
	for i := range v.NumField() {
		require.Equal(t, v.Type().Field(i).Name != "NodeUp", v.Field(i).IsNil(), v.Type().Field(i).Name)
	}
	one.NodeUp("n1")
	require.Equal(t, 1, called)
	require.Equal(t, reflect.ValueOf(quorumlock.Hooks{}).Interface(), quorumlock.MultiHooks())
}
