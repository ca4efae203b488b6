package bridge

import (
	"cmp"
	"math"
	"strconv"
)

// answered takes the call out of those that wait to which an answer has this id. Some servers spell an id in another way, 1.0 or "1" for 1,
// and an error about a message that they could not read has none (https://www.jsonrpc.org/specification#response_object): where one call
// alone waits, it is about that.
func (p *peer) answered(id []byte) *call {
	if c := p.take(id); c != nil {
		return c
	}
	if n, err := strconv.ParseFloat(cmp.Or(text(id), string(id)), 64); err == nil && n == math.Trunc(n) {
		return p.take(strconv.AppendFloat(nil, n, 'f', -1, 64))
	}
	if calls := p.mine(nil); len(calls) == 1 && (id == nil || string(id) == "null") {
		return p.take(calls[0].wire)
	}
	return nil
}
