package workload

// Slot is one of the two places of a server's backend. Each has a StatefulSet and two Services with names and selectors
// of their own, which never change: content that is tried beside what serves gets no calls by any of them. Any other
// value is Slot1, where a server has its backend that says nothing of slots.
type Slot int32

// The slots.
const (
	Slot1 Slot = 1
	Slot2 Slot = 2
)

// Slots are both.
var Slots = [...]Slot{Slot1, Slot2}

// Backends are the components of the pods of both.
var Backends = []string{Slot1.Component(), Slot2.Component()}

// Component is that of the slot's objects and pods.
func (s Slot) Component() string {
	if s == Slot2 {
		return ComponentBackend + s.suffix()
	}
	return ComponentBackend
}

// Other is the slot beside.
func (s Slot) Other() Slot {
	if s == Slot2 {
		return Slot1
	}
	return Slot2
}

// Name is the StatefulSet of the slot, and the Service that proxies call.
func (s Slot) Name(key string) string { return dnsLabel(key, s.suffix()) }

// HeadlessName is the Service that names the slot's pods.
func (s Slot) HeadlessName(key string) string { return dnsLabel(key, s.suffix()+"-headless") }

// suffix has at most eight characters (names.go).
func (s Slot) suffix() string {
	if s == Slot2 {
		return "-slot2"
	}
	return "-backend"
}
