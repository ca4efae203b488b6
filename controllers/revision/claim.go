package revision

// Next is the revision under which content with hash is claimed, given every revision
// that the server's status and children carry: the highest of them if it was
// claimed for the same content, else the number above it. So the number is
// never lower than any child's, also when the status was lost, and equal
// content keeps its number. Two contents under the highest number mean that an
// annotation was edited, and only a higher number ends that.
func Next(known []Revision, hash string) Revision {
	highest, disputed := Revision{}, false
	for _, rev := range known {
		switch {
		case rev.Generation > highest.Generation:
			highest, disputed = rev, false
		case rev.Generation == highest.Generation && rev.Hash != highest.Hash:
			disputed = true
		}
	}
	if highest.Valid() && highest.Hash == hash && !disputed {
		return highest
	}
	return Revision{Generation: highest.Generation + 1, Hash: hash}
}
