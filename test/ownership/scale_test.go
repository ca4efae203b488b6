package ownership

// Scale writes spec.replicas through the scale subresource, as an autoscaler does.
func (l *live) Scale(manager string, replicas int64) {
	l.Helper()
	next, err := l.managers.Scale(l.object, manager, replicas)
	if err != nil {
		l.Fatalf("scaling as %s: %v", manager, err)
	}
	l.keep(next)
}
