package workload

// Next is the mark under which content with hash is claimed, given every mark
// that the server's status and children carry: the highest of them if it was
// claimed for the same content, else the number above it. So the number is
// never lower than any child's, also when the status was lost, and equal
// content keeps its number.
func Next(known []Mark, hash string) Mark {
	highest := Mark{}
	for _, mark := range known {
		// Of two contents with one number neither can be trusted to be ours,
		// unless one of them is what we want.
		if mark.Generation > highest.Generation || mark.Generation == highest.Generation && mark.Hash == hash {
			highest = mark
		}
	}
	if highest.Valid() && highest.Hash == hash {
		return highest
	}
	return Mark{Generation: highest.Generation + 1, Hash: hash}
}
