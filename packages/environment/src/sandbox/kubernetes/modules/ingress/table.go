package main

import (
	"net"
	"sort"
	"strings"
)

// A rule sends requests for a host and below a path to an address.
type rule struct {
	host, path string
	exact      bool
	target     string
}

// A table is a list of rules, the most particular one first.
type table []rule

// newTable sorts rules as the Ingress specification ranks them: exact hosts before wildcards before none; exact paths
// before prefixes, long ones before short ones.
func newTable(rules []rule) table {
	sort.SliceStable(rules, func(i, j int) bool {
		a, b := rules[i], rules[j]
		if rank(a.host) != rank(b.host) {
			return rank(a.host) < rank(b.host)
		}
		if a.exact != b.exact {
			return a.exact
		}
		return len(a.path) > len(b.path)
	})
	return rules
}

func rank(host string) int {
	switch {
	case host == "":
		return 2
	case strings.HasPrefix(host, "*."):
		return 1
	}
	return 0
}

// find gives the address for a request, or "" if no rule wants it. The host may have a port.
func (t table) find(host, path string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(host)
	for _, r := range t {
		if r.wantsHost(host) && r.wantsPath(path) {
			return r.target
		}
	}
	return ""
}

// wantsHost: a wildcard stands for exactly one label.
func (r rule) wantsHost(host string) bool {
	if rest, wildcard := strings.CutPrefix(r.host, "*."); wildcard {
		label, domain, found := strings.Cut(host, ".")
		return found && label != "" && domain == rest
	}
	return r.host == "" || r.host == host
}

// wantsPath: prefixes match whole elements, /a matches /a and /a/b but not /ab.
func (r rule) wantsPath(path string) bool {
	if r.exact {
		return path == r.path
	}
	prefix := strings.TrimSuffix(r.path, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
