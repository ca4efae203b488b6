package workload

// Next is the mark under which content with hash is claimed, given every mark
// that the server's status and children carry: the highest of them if it was
// claimed for the same content, else the number above it. So the number is
// never lower than any child's, also when the status was lost, and equal
// content keeps its number. Where two contents stand under the highest number,
// somebody touched a mark, and only a higher number ends that.
func Next(known []Mark, hash string) Mark {
	highest, disputed := Mark{}, false
	for _, mark := range known {
		switch {
		case mark.Generation > highest.Generation:
			highest, disputed = mark, false
		case mark.Generation == highest.Generation && mark.Hash != highest.Hash:
			disputed = true
		}
	}
	if highest.Valid() && highest.Hash == hash && !disputed {
		return highest
	}
	return Mark{Generation: highest.Generation + 1, Hash: hash}
}
