package transport

import (
	"fmt"
	"strconv"
	"strings"
)

// Addr is an address of the form mpi://<rank>/<service>. It is comparable, and a
// net.Addr.
type Addr struct {
	// Rank is a rank of the job (of MPI_COMM_WORLD), or ThisRank. With Host it
	// counts the ranks on that host, from 0, in the order of their ranks in the job.
	Rank int
	// Host is the name of a host of the job, or "".
	Host string
	// Service is the name of a listener of that rank; "" is the default one.
	Service string
}

// ThisRank stands for the rank of the process itself. It is written as *.
const ThisRank = -1

const (
	scheme     = "mpi://"
	maxService = 128 // bytes
	maxHost    = 64
	maxRank    = 1<<31 - 1
)

// Network is "mpi".
func (a Addr) Network() string { return "mpi" }

// String is the form that ParseAddr reads.
func (a Addr) String() string {
	var b strings.Builder
	b.WriteString(scheme)
	switch {
	case a.Host != "":
		b.WriteString(a.Host)
		if a.Rank != 0 {
			fmt.Fprintf(&b, ":%d", a.Rank)
		}
	case a.Rank == ThisRank:
		b.WriteString("*")
	default:
		b.WriteString(strconv.Itoa(a.Rank))
	}
	if a.Service != "" {
		b.WriteString("/" + a.Service)
	}
	return b.String()
}

// ParseAddr reads an address:
//
//	mpi://3/store      the service "store" of rank 3 of the job
//	mpi://3            its default service
//	mpi://*/store      the service of this rank
//	mpi://node7/store  the service of the first rank on the host node7
//	mpi://node7:2      the default service of the third rank on it
//
// A service has 1 to 128 letters, digits and characters of "-._~"; a host is a name
// as its system tells it, of letters, digits and "-._", not of digits alone, that begins
// with a letter or a digit. Nothing
// else is allowed, so that an address has one form. The error says what is wrong.
// ParseAddr is local and needs no MPI: whether there is such a rank or host,
// [Resolve] says.
func ParseAddr(text string) (Addr, error) {
	fail := func(format string, a ...any) (Addr, error) {
		return Addr{}, fmt.Errorf("address %q: %s; want mpi://<rank>/<service>, with * for this rank, or mpi://<host>:<n>/<service>", text, fmt.Sprintf(format, a...))
	}
	rest, found := strings.CutPrefix(text, scheme)
	if !found {
		return fail("it does not begin with %s", scheme)
	}
	where, service, named := strings.Cut(rest, "/")
	if named {
		if service == "" {
			return fail("no service after the slash")
		}
		if len(service) > maxService {
			return fail("a service of %d bytes, of at most %d", len(service), maxService)
		}
		if i := strings.IndexFunc(service, notIn("-._~")); i >= 0 {
			return fail("the service has %q in it", service[i:i+1])
		}
	}
	a := Addr{Service: service}
	switch host, index, indexed := strings.Cut(where, ":"); {
	case where == "":
		return fail("no rank")
	case where == "*":
		a.Rank = ThisRank
	case !indexed && strings.IndexFunc(where, notDigit) < 0:
		rank, ok := parseRank(where)
		if !ok {
			return fail("%q is no rank", where)
		}
		a.Rank = rank
	default:
		if host == "" || len(host) > maxHost {
			return fail("a host of %d bytes, of 1 to %d", len(host), maxHost)
		}
		if notIn("")(rune(host[0])) {
			return fail("a host that begins with %q", host[:1])
		}
		if i := strings.IndexFunc(host, notIn("-._")); i >= 0 {
			return fail("the host has %q in it", host[i:i+1])
		}
		if strings.IndexFunc(host, notDigit) < 0 {
			return fail("%q is a rank, not a host", host)
		}
		a.Host = host
		if indexed {
			n, ok := parseRank(index)
			if !ok || n == 0 { // the first has no number
				return fail("%q is no number of a further rank on the host", index)
			}
			a.Rank = n
		}
	}
	return a, nil
}

// parseRank reads a number in its one form.
func parseRank(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && strconv.FormatUint(n, 10) == text && n <= maxRank
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// notIn tells of a rune that is neither a letter, a digit, nor one of the others.
func notIn(others string) func(rune) bool {
	return func(r rune) bool {
		return notDigit(r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(others, r)
	}
}

// Resolve returns the address with the rank's number in the job. It is local: all
// ranks have told their hosts in mpicomm.Init.
//
// Errors: the job has no such rank or host, which is then named; MPI is not
// initialised.
func Resolve(a Addr) (Addr, error) {
	n, err := openNode()
	if err != nil {
		return Addr{}, err
	}
	return n.resolve(a)
}

// Ranks lists the ranks of the job that run on a host, in ascending order, by the
// name that the host's system has for it (os.Hostname). It is local. Without such a
// host the list is empty.
func Ranks(host string) ([]int, error) {
	n, err := openNode()
	if err != nil {
		return nil, err
	}
	var ranks []int
	for rank, name := range n.link.Hosts() {
		if name == host {
			ranks = append(ranks, rank)
		}
	}
	return ranks, nil
}

func (n *node) resolve(a Addr) (Addr, error) {
	hosts := n.link.Hosts()
	switch {
	case a.Host != "":
		seen := 0
		for rank, name := range hosts {
			if name != a.Host {
				continue
			}
			if seen == a.Rank {
				return Addr{Rank: rank, Service: a.Service}, nil
			}
			seen++
		}
		if seen > 0 {
			return Addr{}, fmt.Errorf("address %v: %d ranks of the job run on that host", a, seen)
		}
		return Addr{}, fmt.Errorf("address %v: no rank of the job runs on a host of that name; rank 0 runs on %s", a, hosts[0])
	case a.Rank == ThisRank:
		a.Rank = n.link.Rank()
	case a.Rank < 0 || a.Rank >= len(hosts):
		return Addr{}, fmt.Errorf("address %v: the job has the ranks 0 to %d", a, len(hosts)-1)
	}
	return a, nil
}

// resolveText is ParseAddr and resolve.
func (n *node) resolveText(text string) (given, resolved Addr, err error) {
	if given, err = ParseAddr(text); err == nil {
		resolved, err = n.resolve(given)
	}
	return given, resolved, err
}
