package faultinject

// Conns returns the number of present connections of clients, including hanging ones.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}
