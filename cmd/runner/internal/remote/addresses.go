package remote

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
)

// special are the networks whose addresses are not of the public Internet, or lead
// back into a private network, by the registries of
// https://www.iana.org/assignments/iana-ipv4-special-registry and
// https://www.iana.org/assignments/iana-ipv6-special-registry.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/3",
	// Azure's metadata and DNS have a public address:
	// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
	"168.63.129.16/32",
	// Of IPv6 only global unicast is public, and of that not what carries an IPv4
	// address that nobody has looked at (NAT64 is outside of it, Teredo, 6to4), nor
	// documentation.
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// public reports whether an address is one of the public Internet.
func public(address netip.Addr) bool {
	if address.Is6() && !global.Contains(address) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(address) })
}

// Connect is a net.Dialer's ControlContext: it refuses a connection to an address
// that is not public and not in a network that is allowed. It is asked with the
// address that is connected to, after names were resolved, so that no answer of DNS
// gets past it; and for each connection, since a name may lead elsewhere the next
// time.
func (s *Server) Connect(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Refusal{AddressNotAllowed, "the address of spec.url cannot be read"}
	}
	ip := to.Addr().Unmap().WithZone("")
	if public(ip) || slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	is := ip.String() + " is"
	if host := s.URL.Hostname(); host != ip.String() {
		is = host + " leads to " + ip.String() + ", which is"
	}
	return &Refusal{
		AddressNotAllowed,
		is + " no public address: write another url, or the network of this address into spec.allowedNetworks",
	}
}
