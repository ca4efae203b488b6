package revision

// Next is the revision for content with hash, given all revisions of the server's status and children: the highest
// one if it has the same hash, else the number above it. So equal content keeps its number, and the number never
// falls below a child's, even if the status was lost. Two hashes under the highest number mean that an annotation was
// edited, and only a higher number ends that.
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
