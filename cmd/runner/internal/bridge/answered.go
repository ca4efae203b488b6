package bridge

// answered takes the call out of those that wait to which an answer has this id. An error about a message that a server
// could not read has none (https://www.jsonrpc.org/specification#response_object): where one call alone waits, it is
// about that.
func (p *peer) answered(id []byte) *call {
	if c := p.take(id); c != nil {
		return c
	}
	if calls := p.mine(nil); len(calls) == 1 && (id == nil || string(id) == "null") {
		return p.take(calls[0].wire)
	}
	return nil
}
