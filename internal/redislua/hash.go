package redislua

func (s *Server) hset(args []string) Value {
	if len(args)%2 != 0 {
		return failure("ERR wrong number of arguments for 'hset' command")
	}
	k, added := s.writable(args[1], hashKey), 0
	for i := 2; i < len(args); i += 2 {
		if k.setField(args[i], args[i+1]) {
			added++
		}
	}
	return integer(added)
}

// field returns the value of a field, or a nil value.
func (k *key) field(name string) Value {
	if k == nil {
		return Value{}
	}
	value, known := k.fields[name]
	if !known {
		return Value{}
	}
	return bulk(value)
}

func (s *Server) hget(args []string) Value { return s.key(args[1]).field(args[2]) }

func (s *Server) hmget(args []string) Value {
	k := s.key(args[1])
	items := make([]Value, len(args)-2)
	for i, name := range args[2:] {
		items[i] = k.field(name)
	}
	return array(items)
}

func (s *Server) hkeys(args []string) Value {
	if k := s.key(args[1]); k != nil {
		return bulks(k.order...)
	}
	return array(nil)
}

func (s *Server) hgetall(args []string) Value {
	k := s.key(args[1])
	if k == nil {
		return array(nil)
	}
	items := make([]Value, 0, 2*len(k.order))
	for _, name := range k.order {
		items = append(items, bulk(name), bulk(k.fields[name]))
	}
	return array(items)
}
